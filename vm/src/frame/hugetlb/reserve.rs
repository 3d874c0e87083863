//! Huge pages that were set aside, as a value: dropping it gives them up.

use crate::frame::Memory;
use crate::machine::Machine;
use crate::units::PageSize;
use core::fmt;
use core::mem::ManuallyDrop;

/// Huge pages of the hugetlb pool that are set aside, for entries that are not marked yet, for those that
/// are not any more, or for an object that does not live yet or any more. Dropping it gives them up.
#[must_use = "what is set aside is given up when this is dropped"]
pub(crate) struct HugetlbReservation<'m, M: Machine> {
    memory: &'m Memory<'m, M>,
    size: PageSize,
    /// As many of the pool's `reserved` are this value's.
    nr: u64,
}

impl<'m, M: Machine> HugetlbReservation<'m, M> {
    /// Sets `nr` huge pages aside. `None`, and nothing has changed, where fewer are available.
    pub fn take(memory: &'m Memory<'m, M>, size: PageSize, nr: u64) -> Option<Self> {
        memory.hugetlb().reserve(size, nr).then(|| Self { memory, size, nr })
    }

    /// Takes back what entries had that were marked *reserved*, and are not since the caller replaced the
    /// markers, under the lock of their table.
    pub fn of_cleared_entries(memory: &'m Memory<'m, M>, size: PageSize, nr: u64) -> Option<Self> {
        (nr > 0).then(|| Self { memory, size, nr })
    }

    /// Takes back what an object counted as set aside for it, and does not since, under its lock.
    pub fn counted_by_object(memory: &'m Memory<'m, M>, size: PageSize, nr: u64) -> Option<Self> {
        Self::of_cleared_entries(memory, size, nr)
    }

    /// How many.
    pub fn nr(&self) -> u64 {
        self.nr
    }

    /// One of them is an entry's from now on, which is marked *reserved* before its table is unlocked. False
    /// where there is none left.
    pub fn give_to_entry(&mut self) -> bool {
        let is_any = self.nr > 0;
        self.nr -= u64::from(is_any);
        is_any
    }

    /// All of them are an object's, which counts them.
    pub fn into_object(self) {
        let _counted_there = ManuallyDrop::new(self);
    }
}

impl<M: Machine> Drop for HugetlbReservation<'_, M> {
    fn drop(&mut self) {
        if self.nr > 0 {
            self.memory.hugetlb().unreserve(self.size, self.nr);
        }
    }
}

impl<M: Machine> fmt::Debug for HugetlbReservation<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} pages of {:?} set aside", self.nr, self.size)
    }
}
