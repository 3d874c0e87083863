//! Handles of objects: memory that several mappings show, in one space or in many.
//!
//! ```text
//!   ObjectHandle::new ──────────┐                                     ┌─► map in any space
//!   AddressSpace::object_at ────┴─► ObjectHandle ── at_page(nr) ──────┴─► map once more
//! ```
//!
//! A handle counts as one mapped page of its object: the object lives as long as a page of it is mapped or
//! a handle of it is there. Nothing is locked between finding an object and mapping it, and the space that it
//! was found in may unmap it meanwhile, or end.

use super::{AddressSpace, Error, MapBacking, Vm};
use crate::machine::Machine;
use crate::object::{MAX_PAGES, PagerKey};
use crate::space::ops::page_len;
use crate::sync::UniqueId;
use crate::units::{Pfn, VirtAddr, VpnRange};
use crate::vma::{Backing, ObjectId};
use core::fmt;
use core::marker::PhantomData;

/// A counted handle of an object. Dropping the last one, where no page of the object is mapped, ends it:
/// called with no lock held and outside any read section; may wait for readers. (Linux: a file of `memfd`.)
#[must_use = "an object that is neither held nor mapped ends"]
pub struct ObjectHandle<'v, M: Machine> {
    pub(super) vm: &'v Vm<'v, M>,
    object: ObjectId,
}

/// Pages of an object from one on, as a [request](MapBacking::Object) maps them. The handle that they are
/// borrowed from keeps the object.
///
/// ```compile_fail,E0505
/// use interleaf::space::{MapBacking, ObjectHandle};
/// fn outlives<'v, M: interleaf::Machine>(vm: &'v interleaf::Vm<'v, M>) {
///     let object = ObjectHandle::new(vm, 4096).expect("memory");
///     let pages = object.at_page(0);
///     drop(object);
///     let _mapped_too_late = pages;
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ObjectPages<'a> {
    object: ObjectId,
    first: u64,
    /// The memory of its system: another system has other objects by the same numbers.
    memory: UniqueId,
    _handle: PhantomData<&'a ()>,
}

impl<'v, M: Machine> ObjectHandle<'v, M> {
    /// A new object of zeros, of `len_bytes` rounded up to pages. Its pages take memory as they are touched,
    /// and are not counted as committed (Linux: memfd_create).
    ///
    /// # Errors
    /// [`Error::Invalid`] for no length; [`Error::NoMemory`] for a length that no object has, and where there
    /// is no memory for its record.
    pub fn new(vm: &'v Vm<'v, M>, len_bytes: u64) -> Result<Self, Error> {
        let pages = page_len(len_bytes)?;
        if pages > MAX_PAGES {
            return Err(Error::NoMemory);
        }
        let object = vm.retry_after_trim(|| vm.create_object(pages)).ok_or(Error::NoMemory)?;
        Ok(Self { vm, object })
    }

    /// A new object whose pages the system's [pager](super::VmOptions::pager) fills, as they are touched; it
    /// knows the object by `key`. Made once for each of the embedder's objects: two of one key have pages of
    /// their own.
    ///
    /// # Errors
    /// [`Error::Invalid`] where the system has no pager; [`Error::NoMemory`] where there is none for its
    /// record.
    pub fn paged(vm: &'v Vm<'v, M>, key: PagerKey) -> Result<Self, Error> {
        if !vm.objects.has_pager() {
            return Err(Error::Invalid);
        }
        let object = vm.retry_after_trim(|| vm.create_paged_object(key)).ok_or(Error::NoMemory)?;
        Ok(Self { vm, object })
    }

    /// A handle more of an object that a mapping or a handle keeps until this returns.
    pub(super) fn hold(vm: &'v Vm<'v, M>, object: ObjectId) -> Self {
        vm.hold_object(object);
        Self { vm, object }
    }

    /// Its number, which mappings of it show ([`Backing::object`]).
    pub fn id(&self) -> ObjectId {
        self.object
    }

    /// Its length in bytes; may be stale. Of one whose pages a pager fills, as many as any object may have
    /// until it is [given another](Self::set_len_bytes).
    pub fn len_bytes(&self) -> u64 {
        let reading = self.vm.read();
        self.vm.object(self.object, &reading).map_or(0, |object| object.len_bytes())
    }

    /// The frame that a page of it has, if it has one; may be stale.
    pub fn frame_of(&self, page: u64) -> Option<Pfn> {
        let reading = self.vm.read();
        self.vm.object(self.object, &reading)?.lookup(&self.vm.memory, page, &reading)
    }

    /// Whether its pages are written back: see
    /// [`Pager::is_written_back`](crate::object::Pager::is_written_back).
    pub fn is_written_back(&self) -> bool {
        let reading = self.vm.read();
        self.vm.object(self.object, &reading).is_some_and(|object| object.is_tracked())
    }

    /// Whether the object has a page that is to be written back, or is being written; may be stale. Never,
    /// where its pages are not written back.
    pub fn is_dirty(&self, page: u64) -> bool {
        let reading = self.vm.read();
        let memory = &self.vm.memory;
        self.vm.object(self.object, &reading).is_some_and(|object| {
            object.is_dirty(memory, page, &reading) || object.is_writing(memory, page, &reading)
        })
    }

    /// What a request maps that begins at the page `first` of the object, counted from 0.
    pub fn at_page(&self, first: u64) -> MapBacking<'_> {
        MapBacking::Object(ObjectPages {
            object: self.object,
            first,
            memory: self.vm.memory.id(),
            _handle: PhantomData,
        })
    }
}

impl ObjectPages<'_> {
    pub(super) fn object(self) -> ObjectId {
        self.object
    }

    /// The first page.
    pub fn first(self) -> u64 {
        self.first
    }

    /// Whether the object is of this system, and `len` pages from the first on have numbers. It may have
    /// fewer.
    pub(super) fn are_of<M: Machine>(self, vm: &Vm<'_, M>, len: u64) -> bool {
        self.memory == vm.memory.id() && self.first.checked_add(len).is_some()
    }
}

impl<'v, M: Machine> AddressSpace<'v, M> {
    /// A handle of the object that is mapped at `addr`, and the page of it that is there; `None` where no
    /// object is mapped: memory of the space's own, of the hugetlb pool, or PFN-mapped frames.
    ///
    /// Locks the page to read; what is mapped there may be something else once this returns.
    pub fn object_at(&self, addr: VirtAddr) -> Option<(ObjectHandle<'v, M>, u64)> {
        let page = addr.vpn();
        let pages = VpnRange::new(page, page.add(1));
        let guard = self.mappings.read(pages);
        let vma = self.mappings.first_in(guard.token(), pages)?;
        let Backing::Object(object) = vma.backing.get() else { return None };
        Some((ObjectHandle::hold(self.vm, object), vma.offset_at(page)))
    }
}

/// A handle more of the same object.
impl<M: Machine> Clone for ObjectHandle<'_, M> {
    fn clone(&self) -> Self {
        Self::hold(self.vm, self.object)
    }
}

impl<M: Machine> Drop for ObjectHandle<'_, M> {
    fn drop(&mut self) {
        self.vm.release_object(self.object);
    }
}

impl<M: Machine> fmt::Debug for ObjectHandle<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "handle of {:?}", self.object)
    }
}

impl fmt::Debug for ObjectPages<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} from page {} on", self.object, self.first)
    }
}
