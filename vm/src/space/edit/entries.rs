//! The entries of a space: the tables, the CPUs that may have cached what they say, and how far a fork has
//! come. All that an edit of entries needs of a space, and nothing of its mappings.

use crate::machine::{Format, Machine};
use crate::space::fork_cursor::ForkCursor;
use crate::space::{Counter, Vm};
use crate::sync::atomic::{AtomicU64, Ordering::*};
use crate::sync::{CacheAligned, PreemptOff};
use crate::table::{LockedTable, PageTable};
use crate::tlb::SpaceTlb;
use crate::units::{Vpn, VpnRange};

/// The entries of a space.
pub(in crate::space) struct Entries<'v, M: Machine> {
    pub vm: &'v Vm<'v, M>,
    /// The tree.
    pub table: PageTable<'v, M>,
    /// Generations and running CPUs.
    pub tlb: SpaceTlb<M::Cpu>,
    /// How far a fork has come. On a line of its own: a fork stores it at each table, write faults read it.
    pub fork: CacheAligned<ForkCursor<M::Cpu>>,
    /// Whether a leaf may be huge, or become so by a fault: given frames were mapped, a mapping may have huge
    /// pages, or is of the hugetlb pool. Written, once, under a [`RangeGuard`](super::RangeGuard), before
    /// that can be; read under a guard of any kind.
    has_huge_leaves: AtomicU64<M::Cpu>,
}

impl<'v, M: Machine> Entries<'v, M> {
    /// None yet, below the root of `table`, of the space of that number.
    pub fn new(vm: &'v Vm<'v, M>, table: PageTable<'v, M>, space: u64, may_have_huge_leaves: bool) -> Self {
        Self {
            vm,
            table,
            tlb: SpaceTlb::new(space),
            fork: CacheAligned(ForkCursor::new(vm.huge_sizes)),
            has_huge_leaves: AtomicU64::new(may_have_huge_leaves as u64),
        }
    }
}

impl<M: Machine> Entries<'_, M> {
    /// Whether a leaf may be huge, or become so by a fault. Exact for writers.
    #[inline(always)]
    pub fn may_have_huge_leaves(&self) -> bool {
        self.has_huge_leaves.load(Relaxed) != 0
    }

    /// Says that a leaf may be huge from now on. The caller is a writer, which has published nothing yet that
    /// lets faults install huge leaves.
    pub fn note_huge_leaves(&self) {
        if !self.may_have_huge_leaves() {
            self.has_huge_leaves.store(1, Relaxed);
        }
    }

    /// Makes every CPU that runs the space forget the page, for a fault that replaces the frame of a present
    /// entry. The entry is a marker until this returns, and its table stays locked.
    pub fn flush_page(&self, table: &LockedTable<'_, M>, page: Vpn) {
        self.flush_pages(table, VpnRange::new(page, page.add(1)));
    }

    /// As [`flush_page`](Self::flush_page), of the pages of one entry.
    pub fn flush_pages(&self, _table: &LockedTable<'_, M>, pages: VpnRange) {
        self.vm.count(Counter::TlbFlush);
        self.vm.shootdown.flush(self.vm.machine, &self.tlb, pages);
    }

    /// Makes this CPU's TLB ask the tables again for a page whose entry allows an access that was refused.
    #[inline(always)]
    pub fn forget_refusal(&self, page: Vpn, _preempt_off: &impl PreemptOff<M::Cpu>) {
        if M::Format::REMEMBERS_REFUSALS && !mutant!("fault.refusal-remembered") {
            self.vm.machine.flush_range(VpnRange::new(page, page.add(1)));
        }
    }

    /// Whether the flush of an edit may not have ended whose mappings the caller has just met under the
    /// space's lock. An edit that counts no more has ended since.
    pub fn is_edit_pending(&self) -> bool {
        !mutant!("fault.refused-before-flush") && self.tlb.is_flush_pending()
    }
}
