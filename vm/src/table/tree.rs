//! A page table: a root, the memory that its table pages lie in, and the state that they share.

use super::Table;
use crate::frame::{HugeZeroUse, Init, Memory, TableFrame};
use crate::machine::{Format, Machine, RootTable};
use crate::sync::{AsymmetricLocks, HitSource, Rcu, ReadGuard, UniqueId};
use crate::units::{Level, Pfn};
use core::fmt;

/// A tree of [`Table`] pages. It owns its root, which goes with it; tables below that are linked still are
/// leaked then.
pub struct PageTable<'m, M: Machine> {
    pub(super) memory: &'m Memory<'m, M>,
    /// Never changes. Invariant: an attached table, which only this tree detaches.
    root: Pfn,
    /// The version under which CPUs cache the tables of their last walks.
    pub(super) hits: HitSource<M::Cpu>,
    /// The RCU under which detached tables are retired; `None`: no table is ever detached, and there are no
    /// walks without a lock.
    pub(super) rcu: Option<&'m Rcu<'m, M::Cpu>>,
    /// The locks of all its table pages.
    pub(super) locks: AsymmetricLocks<M::Cpu>,
    /// References to the huge zero pages that its leaves map.
    pub(super) huge_zero: HugeZeroUse<M::Cpu>,
    /// The first slot of the root that is the platform's.
    first_platform_slot: usize,
    /// The root outlives the tree.
    is_leaked: bool,
}

/// Slots of a space's root that cover user addresses.
const USER_SLOTS: usize = Level::ENTRIES / 2;

impl<'m, M: Machine> PageTable<'m, M> {
    /// The tree below `root`, for walks in read sections of `rcu`, to which detached tables are retired.
    ///
    /// # Panics
    /// Where the root is of another memory.
    pub fn new(memory: &'m Memory<'m, M>, root: TableFrame<'m, M>, rcu: &'m Rcu<'m, M::Cpu>) -> Self {
        let root = root.attach(memory);
        Self {
            memory,
            root,
            hits: HitSource::new(),
            rcu: Some(rcu),
            locks: AsymmetricLocks::new(),
            huge_zero: HugeZeroUse::new(),
            first_platform_slot: USER_SLOTS,
            is_leaked: false,
        }
    }

    /// As [`new`](Self::new), for a [`Mapper`](super::Mapper): no CPU owns the locks, and all slots of the
    /// root are the tree's.
    pub(super) fn of_mapper(
        memory: &'m Memory<'m, M>,
        root: TableFrame<'m, M>,
        rcu: &'m Rcu<'m, M::Cpu>,
    ) -> Self {
        let mut tree = Self::of_all_cpus(memory, root);
        tree.rcu = Some(rcu);
        tree
    }

    /// As [`new`](Self::new), for a tree of the platform's own, which any CPU edits at any time: no CPU owns
    /// the locks. No table is detached from it, and it is not walked without a lock. All slots of its root
    /// are the tree's, where those of a space's root that cover no user address are the platform's.
    ///
    /// # Panics
    /// As [`new`](Self::new).
    pub fn of_all_cpus(memory: &'m Memory<'m, M>, root: TableFrame<'m, M>) -> Self {
        let root = root.attach(memory);
        Self {
            memory,
            root,
            hits: HitSource::new(),
            rcu: None,
            locks: AsymmetricLocks::unowned(),
            huge_zero: HugeZeroUse::new(),
            first_platform_slot: Level::ENTRIES,
            is_leaked: false,
        }
    }

    /// The frame of the root table.
    pub fn root(&self) -> Pfn {
        self.root
    }

    /// The root, for a CPU that is about to load it. The tree is not dropped while one has it loaded.
    pub(crate) fn root_table(&self) -> RootTable {
        // SAFETY: the tree's root, and only typed edits change the tables below; a space, which alone asks
        // for this, refuses to end while a CPU has its root loaded, and leaks the root then.
        unsafe { RootTable::new(self.root) }
    }

    /// The root table.
    #[inline(always)]
    pub fn top<'r>(&self) -> Table<'r, '_, M> {
        // SAFETY: the root is an attached table until the tree is dropped, which the handle borrows.
        unsafe { Table::at(self, self.root, M::Format::ROOT) }
    }

    /// The first slot of the root that is the platform's: [`Level::ENTRIES`] where none is.
    #[inline(always)]
    pub(super) fn first_platform_slot(&self) -> usize {
        self.first_platform_slot
    }

    /// Which RCU it is.
    pub(super) fn rcu_id(&self) -> Option<UniqueId> {
        self.rcu.map(Rcu::id)
    }

    /// Checks that the read section keeps tables of this tree from being freed.
    #[inline(always)]
    #[track_caller]
    pub(super) fn assert_reads(&self, reading: &ReadGuard<'_, M::Cpu>) {
        reading.assert_is_of(self.rcu);
    }

    /// Keeps the root for good: a CPU may walk it even after the tree is dropped.
    pub(crate) fn leak(&mut self) {
        self.is_leaked = true;
    }

    /// Gives up this CPU's ownership of the locks, for the next CPU that faults here. This CPU holds none of
    /// them.
    #[inline]
    pub(crate) fn release_ownership(&self) {
        self.locks.release_ownership();
    }
}

impl<M: Machine> Drop for PageTable<'_, M> {
    fn drop(&mut self) {
        if self.is_leaked {
            // The CPU may read through leaves too.
            return;
        }
        self.huge_zero.put_all(self.memory);
        // SAFETY: handles borrow the tree, so no walk is in it or begins later. Dirty: the platform may have
        // written its own half of the root.
        let root = unsafe { self.memory.detach_table(self.root, Init::Dirty, self.rcu_id()) };
        if let Some(root) = root {
            // SAFETY: handles borrow the tree, so no walk is in it.
            unsafe { root.free_unwalked() };
        }
    }
}

impl<M: Machine> fmt::Debug for PageTable<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page table at {:?}, {:?}, {:?}", self.root, self.hits, self.locks)
    }
}
