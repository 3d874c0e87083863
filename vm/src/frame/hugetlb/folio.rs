//! A huge page that was taken from the hugetlb pool, and is not mapped yet.

use crate::frame::owned::UserFrame;
use crate::frame::parts::PART;
use crate::frame::{AnonKey, FrameRef, FrameState, Init, Kind, MappedFolio, Memory};
use crate::machine::Machine;
use crate::units::{Order, PageSize, Pfn};
use crate::work::WorkerPool;
use core::fmt;
use core::mem::ManuallyDrop;

/// Whether a huge page is taken by a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HugetlbTake {
    /// One was set aside for the entry, or for the page of an object.
    Reserved,
    /// One that is not reserved.
    Available,
}

/// A huge page of the hugetlb pool that its holder owns alone. Dropping it gives it back.
pub(crate) struct HugetlbFolio<'m, M: Machine> {
    /// Invariant: the block at `pfn`, of this size, is one of the pool of `memory`, in none of its lists; its
    /// record says that it is taken and hugetlb; only this value owns it. Where `init` says so its bytes are
    /// zero.
    memory: &'m Memory<'m, M>,
    pub(super) pfn: Pfn,
    size: PageSize,
    pub(super) init: Init,
    take: HugetlbTake,
}

impl<'m, M: Machine> HugetlbFolio<'m, M> {
    /// The folio, which was just taken out of a list.
    pub(super) fn new(
        memory: &'m Memory<'m, M>,
        (pfn, size): (Pfn, PageSize),
        init: Init,
        take: HugetlbTake,
    ) -> Self {
        Self { memory, pfn, size, init, take }
    }
    /// By what right it was taken.
    pub fn take(&self) -> HugetlbTake {
        self.take
    }

    /// Zeroes it, if it is not zero, by a job where it is large.
    pub fn zero(&mut self, workers: Option<&WorkerPool<'_, M>>) {
        if self.init == Init::Zeroed || mutant!("pool.folio-not-zeroed") {
            return;
        }
        let machine = self.memory.machine();
        self.memory.in_parts(workers, (self.pfn, self.size.order()), |part| {
            // SAFETY: the part lies in the block, by `in_parts`, which this value owns alone and borrows
            // exclusively; no other part holds these frames.
            unsafe { machine.zero(part, PART) };
        });
        self.init = Init::Zeroed;
    }

    /// Copies the bytes of a folio of user memory of the same size and memory, by a job where it is large.
    /// Those that are written meanwhile are copied as they were before or after.
    ///
    /// # Panics
    /// Where the other one is no folio of this size.
    pub fn copy_from(&mut self, from: UserFrame<'_, M>, workers: Option<&WorkerPool<'_, M>>) {
        let from = from.pfn_in(self.memory);
        let order = self.memory.meta_of(from).state().order();
        assert!(order == self.size.order(), "a block of {order:?} is copied to one of {:?}", self.size);
        let (machine, to) = (self.memory.machine(), self.pfn);
        self.init = Init::Dirty;
        self.memory.in_parts(workers, (to, order), |part| {
            // SAFETY: as in `zero` of the part that is copied to. The other one is part of a block of user
            // memory of this order, as its record says, as long as the call lasts: no code has a Rust object
            // there.
            unsafe { machine.copy(from.add(part.0 - to.0), part, PART) };
        });
    }

    /// The folio as exclusive user memory, for the entry of a space that is going to map all of it, from the
    /// page of `key` on. Where it was taken by right of a reserve, the entry was marked so,
    /// and is not any more before its table is unlocked (`LockedTable::use_reserved`).
    pub fn into_mapped_at(self, key: AnonKey) -> MappedFolio<'m, M> {
        let (memory, pfn, order) = self.put_to_use();
        MappedFolio::first(memory, (pfn, order), Some(key))
    }

    /// The folio as memory of an object, with one reference. `owner` are the object and the page in it that
    /// its record names. Called under the lock of the object, which has counted down what was set aside for
    /// it where one was.
    pub fn into_file(self, owner: (u64, u64)) -> FrameRef<'m, M> {
        let (memory, pfn, _) = self.put_to_use();
        let meta = memory.meta_of(pfn);
        // Before the kind: a getter that sees the new kind sees the owner too.
        meta.set_owner(owner.0, owner.1);
        meta.begin_as_objects();
        let is_put = meta.put_to_use(Kind::Object);
        debug_assert!(is_put, "a folio that was taken has no use yet");
        FrameRef::new(memory, pfn)
    }

    /// What was set aside is used by it. Its record says that it is taken, and no more of its contents.
    fn put_to_use(self) -> (&'m Memory<'m, M>, Pfn, Order) {
        let folio = ManuallyDrop::new(self);
        let (memory, order) = (folio.memory, folio.size.order());
        if folio.take == HugetlbTake::Reserved {
            memory.hugetlb().use_reserve(folio.size);
        }
        memory.meta_of(folio.pfn).set_state(FrameState::hugetlb(order, Init::Dirty));
        (memory, folio.pfn, order)
    }
}

impl<M: Machine> Drop for HugetlbFolio<'_, M> {
    fn drop(&mut self) {
        self.memory.hugetlb().untake((self.pfn, self.size), self.init, self.take);
    }
}

impl<M: Machine> fmt::Debug for HugetlbFolio<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "folio {:?} of the pool of {:?}, {:?}", self.pfn, self.size, self.take)
    }
}
