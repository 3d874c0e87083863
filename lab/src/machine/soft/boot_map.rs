//! A machine's memory as a boot map.

use super::{Flavour, SoftMachine};
use interleaf::frame::{BootMap, Init, Region, RegionKind};
use interleaf::machine::Format;
use interleaf::units::{NodeId, PAGE_SIZE};

/// All memory of a machine, dirty, on node 0.
pub fn boot_map<C: Flavour, F: Format>(machine: &SoftMachine<C, F>) -> BootMap {
    let region = |range: &interleaf::units::PfnRange| Region {
        start: range.start.addr(),
        len_bytes: range.len() * PAGE_SIZE as u64,
        kind: RegionKind::Usable(Init::Dirty),
        node: NodeId(0),
    };
    let regions: Vec<Region> = machine.arena().regions().iter().map(region).collect();
    BootMap::new(&regions).expect("the arena's regions are sound")
}
