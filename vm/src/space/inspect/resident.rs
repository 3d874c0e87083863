//! Resident memory, counted from the tables; and the frame of a page.
//!
//! No fault counts its page: a count for each space would be a shared line, or lines of all CPUs, for every
//! fault to write. An observer walks the tables, which takes some instructions for each entry of each table.
//! An embedder that keeps a peak counts before calls that free memory (docs/design/kernel.md).

use super::Inspect;
use crate::machine::Machine;
use crate::space::ops::Mincore;
use crate::table::{Resident, count_resident};
use crate::units::{Pfn, Vpn, VpnRange};

/// Entries that are looked at in one read section, at most.
const IN_SECTION: u64 = 512;

impl<M: Machine> Inspect<'_, '_, M> {
    /// What the entries of the space hold. (Linux: `VmRSS` of `/proc/PID/status`, and `AnonHugePages` of
    /// `/proc/PID/smaps_rollup`.)
    ///
    /// Takes no lock and waits for no other CPU; called outside of any read section. Each entry is as it was
    /// at one moment of this call, another one for each: exact where nothing else changes the space
    /// meanwhile.
    pub fn resident(self) -> Resident {
        self.resident_in(self.space.mappings.layout.areas.user)
    }

    /// As [`resident`](Self::resident), of a range. A huge page that the range cuts counts whole.
    pub fn resident_in(self, range: VpnRange) -> Resident {
        let space = self.space;
        let (mut resident, mut rest) =
            (Resident::default(), range.intersect(space.mappings.layout.areas.user));
        while !rest.is_empty() {
            let reading = space.vm.rcu.read();
            rest.start = count_resident(&space.entries.table, rest, IN_SECTION, &mut resident, &reading);
        }
        resident
    }

    /// The frame that a page has: its own, the zero page (of the huge one too), or its object's; and whether
    /// it is not its own: a page of an object, or a frame that was given. Locks the page to read; the frame
    /// may be freed once this returns.
    pub fn resident_frame(self, page: Vpn) -> Option<(Pfn, bool)> {
        let pages = VpnRange::new(page, page.add(1));
        let Inspect { space } = self;
        let guard = space.mappings.read_live(&space.entries, pages);
        let vma = space.mappings.first_in(guard.token(), pages)?;
        Mincore { mappings: &space.mappings, entries: &space.entries }.frame_behind(&vma, page)
    }
}
