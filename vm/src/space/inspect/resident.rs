//! Resident memory, counted from the tables.
//!
//! No fault counts its page: a count for each space would be a shared line, or lines of all CPUs, for every
//! fault to write. Who wants to know walks the tables, which takes some instructions for each entry of each
//! table. An embedder that keeps a peak counts before calls that free memory (docs/design/kernel.md).

use crate::machine::Machine;
use crate::space::AddressSpace;
use crate::table::{Resident, count_resident};
use crate::units::VpnRange;

/// Entries that are looked at in one read section, at most.
const IN_SECTION: u64 = 512;

impl<M: Machine> AddressSpace<'_, M> {
    /// What the entries of the space hold. (Linux: `VmRSS` of `/proc/PID/status`, and `AnonHugePages` of
    /// `/proc/PID/smaps_rollup`.)
    ///
    /// Takes no lock and waits for nobody; called outside of any read section. Each entry is as it was at one
    /// moment of this call, another one for each: exact where nothing else changes the space meanwhile.
    pub fn resident(&self) -> Resident {
        self.resident_in(self.layout.areas.user)
    }

    /// As [`resident`](Self::resident), of a range. A huge page that the range cuts counts whole.
    pub fn resident_in(&self, range: VpnRange) -> Resident {
        let (mut resident, mut rest) = (Resident::default(), range.intersect(self.layout.areas.user));
        while !rest.is_empty() {
            let reading = self.vm.rcu.read();
            rest.start = count_resident(&self.entries.table, rest, IN_SECTION, &mut resident, &reading);
        }
        resident
    }
}
