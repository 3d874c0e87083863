//! Inspection, for checkers and observers: mappings and frames of pages, a recount of the index, resident
//! memory, the CPUs that run a space, the objects that wait to be freed, and which part of the system lies at
//! which address.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | [`Inspect`]: the tables, the index, the CPUs, and what lies where |
//! | `mappings` | which mappings exist |
//! | `resident` | which frames pages have, and how many |

mod mappings;
mod resident;

use crate::index::IndexStats;
use crate::machine::{Cpu, Machine};
use crate::space::{AddressSpace, Vm};
use crate::table::PageTable;
use crate::units::CpuMask;
use core::fmt;
use core::ops::Range;

/// A space, as observers see it: what only they and checkers ask, and no call needs. Borrows the space and
/// changes nothing of it. Made by [`AddressSpace::inspect`].
pub struct Inspect<'s, 'v, M: Machine> {
    space: &'s AddressSpace<'v, M>,
}

impl<M: Machine> Clone for Inspect<'_, '_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for Inspect<'_, '_, M> {}

impl<'v, M: Machine> AddressSpace<'v, M> {
    /// What observers and checkers ask of the space. Takes no lock.
    #[inline]
    pub fn inspect(&self) -> Inspect<'_, 'v, M> {
        Inspect { space: self }
    }
}

impl<'s, 'v, M: Machine> Inspect<'s, 'v, M> {
    /// The space's tables.
    pub fn page_table(self) -> &'s PageTable<'v, M> {
        &self.space.entries.table
    }

    /// Recounts the index of mappings. Locks the space to read.
    ///
    /// # Errors
    /// The first contradiction in the tree.
    pub fn check_index(self) -> Result<IndexStats, &'static str> {
        let _guard = self.space.mappings.read_all();
        self.space.mappings.vmas.check(&self.space.vm.rcu.read())
    }

    /// The CPUs that translate through the space. Stale at once.
    pub fn cpus_racy(self) -> CpuMask<<M::Cpu as Cpu>::CpuWords> {
        self.space.entries.tlb.cpus_racy()
    }

    /// Visits the name and the addresses of each part of the space that lies in the space itself.
    pub fn each_part(self, mut visit: impl FnMut(&'static str, Range<usize>)) {
        let space = self.space;
        visit("the space's fixed fields", extent(space));
        visit("the space's lock", extent(&space.mappings.lock));
        visit("the root of the space's index", extent(&space.mappings.vmas));
        visit("the space's flush generations", extent(&space.entries.tlb));
        visit("the end of the space's heap", extent(&space.mappings.heap_end));
    }
}

impl<M: Machine> fmt::Debug for Inspect<'_, '_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an inspection of {:?}", self.space)
    }
}

impl<M: Machine> Vm<'_, M> {
    /// Number of objects that wait for their grace period. Stale at once.
    pub fn garbage(&self) -> u64 {
        self.rcu.garbage()
    }

    /// Whether there is an object: one that is mapped, or held by a handle. Stale at once.
    pub fn has_objects(&self) -> bool {
        !self.objects.is_empty_racy()
    }

    /// Visits the name and the addresses of each part that all spaces share.
    pub fn each_part(&self, mut visit: impl FnMut(&'static str, Range<usize>)) {
        visit("the system's fixed fields", extent(self));
        visit("the RCU epoch", extent(&self.rcu));
        visit("the memory's fixed fields", extent(&self.memory));
        visit("the pools of nodes and mappings", extent(&self.mappings));
        visit("the trees of spaces", extent(&self.anon));
        visit("a CPU's read sections, last hits and garbage", self.rcu.extent_of_cpus());
        visit("a CPU's counters", self.counters.extent());
        visit("a CPU's count of numbers", self.numbers.extent());
        visit("a CPU's flush requests", self.shootdown.extent());
        visit("a CPU's cache of frames", self.memory.extent_of_caches());
        self.memory.zones().iter().for_each(|zone| zone.each_part(&mut visit));
    }
}

/// The addresses of a value.
fn extent<T>(value: &T) -> Range<usize> {
    let start = core::ptr::from_ref(value).addr();
    start..start + size_of::<T>()
}
