//! How a system is made: its helpers, its policies for huge pages, its pager.

use super::Vm;
use crate::frame::RecordInit;
use crate::machine::Machine;
use crate::object::Pager;
use crate::units::{Level, PAGE_SIZE};
use crate::vma::{HugePolicy, MthpPolicies, SharedHugePolicy, ZeroPagePolicy};
use crate::work::WorkerPool;
use core::fmt;

/// What is chosen when a system is made ([`Vm::start`]), for its life. The default is a system without
/// helpers and without huge pages, whose records are all written at start.
///
/// ```
/// use interleaf::space::VmOptions;
/// use interleaf::vma::HugePolicy;
/// fn advised<'m, M: interleaf::Machine>() -> VmOptions<'m, M> {
///     VmOptions { huge_pages: HugePolicy::Madvise, ..VmOptions::default() }
/// }
/// ```
pub struct VmOptions<'m, M: Machine> {
    /// When the frames' records are written.
    pub records: RecordInit,
    /// Helpers for large ranges: populating, zeroing, pins, and the end of a space. `None`: each call does
    /// all of it.
    pub workers: Option<&'m WorkerPool<'m, M>>,
    /// When private memory gets huge pages. (Linux: `transparent_hugepage/enabled`.)
    pub huge_pages: HugePolicy,
    /// When private memory gets mTHP folios. (Linux:
    /// `hugepages-*kB/enabled`.)
    pub mthp: MthpPolicies,
    /// When shared anonymous memory gets huge pages other than those of the hugetlb pool. (Linux:
    /// `shmem_enabled`.)
    pub shared_huge_pages: SharedHugePolicy,
    /// What loads of untouched memory find where huge pages are allowed.
    pub zero_page: ZeroPagePolicy,
    /// How far around a load of an object's page the pages are mapped that the object has, in bytes: an
    /// aligned power of two of pages; a value between is rounded down, one beyond what a table of leaves
    /// covers is taken as that. The default is one page: the one of the load. (Linux: `fault_around_bytes`.)
    pub fault_around_bytes: u64,
    /// What fills the pages of the embedder's objects ([`ObjectHandle::paged`](super::ObjectHandle::paged)).
    pub pager: Option<&'m dyn Pager<M>>,
}

impl<M: Machine> Default for VmOptions<'_, M> {
    fn default() -> Self {
        Self {
            records: RecordInit::Eager,
            workers: None,
            huge_pages: HugePolicy::Never,
            mthp: MthpPolicies::NEVER,
            shared_huge_pages: SharedHugePolicy::Never,
            zero_page: ZeroPagePolicy::Huge,
            fault_around_bytes: PAGE_SIZE as u64,
            pager: None,
        }
    }
}

impl<M: Machine> Clone for VmOptions<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for VmOptions<'_, M> {}

impl<M: Machine> fmt::Debug for VmOptions<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VmOptions")
            .field("records", &self.records)
            .field("workers", &self.workers)
            .field("huge_pages", &self.huge_pages)
            .field("mthp", &self.mthp)
            .field("shared_huge_pages", &self.shared_huge_pages)
            .field("zero_page", &self.zero_page)
            .field("fault_around_bytes", &self.fault_around_bytes)
            .field("has_pager", &self.pager.is_some())
            .finish()
    }
}

impl<M: Machine> VmOptions<'_, M> {
    /// The pages that a load of an object's page may map at once: a power of two.
    pub(super) fn fault_around_pages(&self) -> u64 {
        let pages = (self.fault_around_bytes / PAGE_SIZE as u64).clamp(1, Level::Pte.table_pages());
        1 << pages.ilog2()
    }
}

impl<M: Machine> Vm<'_, M> {
    /// When private memory gets huge pages.
    pub fn huge_policy(&self) -> HugePolicy {
        self.huge_policy
    }

    /// When shared anonymous memory gets huge pages.
    pub fn shared_huge_policy(&self) -> SharedHugePolicy {
        self.shared_huge
    }

    /// When private memory gets mTHP folios.
    pub fn mthp(&self) -> MthpPolicies {
        self.mthp
    }

    /// What loads of untouched memory find, where huge pages are allowed.
    pub fn zero_page(&self) -> ZeroPagePolicy {
        self.zero_page
    }
}
