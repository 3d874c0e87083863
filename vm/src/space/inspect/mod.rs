//! What checkers and observers may look at, besides what callers need: the index's own recount, who runs a
//! space, how much garbage waits, and which part of the system lies at which address.

use crate::index::IndexStats;
use crate::machine::Machine;
use crate::space::{AddressSpace, Vm};
use crate::table::PageTable;
use crate::units::CpuMask;
use core::ops::Range;

impl<'v, M: Machine> AddressSpace<'v, M> {
    /// The space's tables.
    pub fn page_table(&self) -> &PageTable<'v, M> {
        &self.table
    }

    /// Recounts the index of mappings. Shares the lock.
    ///
    /// # Errors
    /// What is wrong with the tree.
    pub fn check_index(&self) -> Result<IndexStats, &'static str> {
        let _shared = self.lock.read();
        self.vmas.index().tree().check()
    }

    /// The CPUs that translate through the space. Stale at once.
    pub fn cpus_racy(&self) -> CpuMask {
        self.tlb.cpus_racy()
    }

    /// Tells the name and the addresses of each part of the space that lies in the space itself.
    pub fn each_part(&self, mut tell: impl FnMut(&'static str, Range<usize>)) {
        tell("the space's fixed fields", extent(self));
        tell("the space's lock", extent(&self.lock));
        tell("the root of the space's index", extent(&self.vmas));
        tell("the space's flush generations", extent(&self.tlb));
        tell("the space's last identity", extent(&self.identities));
        tell("the end of the space's heap", extent(&self.heap_end));
    }
}

impl<M: Machine> Vm<'_, M> {
    /// Objects that wait until no reader can hold them. Stale at once.
    pub fn garbage(&self) -> u64 {
        self.rcu.garbage()
    }

    /// Tells the name and the addresses of each part that all spaces share.
    pub fn each_part(&self, mut tell: impl FnMut(&'static str, Range<usize>)) {
        tell("the system's fixed fields", extent(self));
        tell("the RCU epoch", extent(&self.rcu));
        tell("the memory's fixed fields", extent(&self.memory));
        tell("the pools of nodes and mappings", extent(&self.mappings));
        tell("the last space's number", extent(&self.spaces));
        tell("a CPU's read sections and garbage", self.rcu.extent_of_cpus());
        tell("a CPU's counters", self.counters.extent());
        tell("what a CPU's last fault found", self.last_fault.extent());
        tell("a CPU's flush requests", self.shootdown.extent());
        tell("a CPU's cache of frames", self.memory.extent_of_caches());
    }
}

/// The addresses of a value.
fn extent<T>(value: &T) -> Range<usize> {
    let start = core::ptr::from_ref(value).addr();
    start..start + size_of::<T>()
}
