//! A page table: a root, the memory that its table pages lie in, and the state that they share.

use super::Table;
use crate::frame::Memory;
use crate::machine::{Format, Machine};
use crate::sync::{AsymmetricLocks, HitSource, Rcu, UniqueId};
use crate::units::Pfn;
use core::fmt;

/// A tree of [`Table`] pages.
pub struct PageTable<'m, M: Machine> {
    pub(super) memory: &'m Memory<'m, M>,
    /// Never changes.
    root: Pfn,
    /// The version under which CPUs cache the tables of their last walks.
    pub(super) hits: HitSource<M::Cpu>,
    /// The RCU under which detached tables are retired; `None`: no table is ever detached, and there are no
    /// walks without a lock.
    pub(super) rcu: Option<UniqueId>,
    /// The locks of all its table pages.
    pub(super) locks: AsymmetricLocks<M::Cpu>,
}

impl<'m, M: Machine> PageTable<'m, M> {
    /// The tree below `root`, an empty table, for walks in read sections of `rcu`.
    pub fn new(memory: &'m Memory<'m, M>, root: Pfn, rcu: &'m Rcu<M::Cpu>) -> Self {
        Self { memory, root, hits: HitSource::new(), rcu: Some(rcu.id()), locks: AsymmetricLocks::new() }
    }

    /// As [`new`](Self::new), for a tree that any CPU edits at any time: no CPU owns the locks. No table is
    /// detached from it, and it is not walked without a lock.
    pub fn of_all_cpus(memory: &'m Memory<'m, M>, root: Pfn) -> Self {
        Self { memory, root, hits: HitSource::new(), rcu: None, locks: AsymmetricLocks::unowned() }
    }

    /// The frame of the root table.
    pub fn root(&self) -> Pfn {
        self.root
    }

    /// The root table.
    #[inline(always)]
    pub fn top(&self) -> Table<'_, M> {
        Table::at(self, self.root, M::Format::ROOT)
    }

    /// Notes that a table was detached, which is not yet retired. The caller keeps all other writers out.
    pub fn note_detached(&self) {
        self.hits.invalidate();
    }

    /// Gives up this CPU's ownership of the locks, for the next CPU that faults here. This CPU holds none of
    /// them.
    #[inline]
    pub fn release_ownership(&self) {
        self.locks.release_ownership();
    }
}

impl<M: Machine> fmt::Debug for PageTable<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page table at {:?}, {:?}, {:?}", self.root, self.hits, self.locks)
    }
}
