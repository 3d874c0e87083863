//! The frame table of a large machine.

use super::{Out, Section};
use crate::error::Failure;
use crate::measure::init::boot::InitMode;
use crate::measure::init::report::{Report, Row};
use crate::measure::init::{Boot, BootMachine, Holes, MemoryMap};
use crate::os::host_info::HostInfo;

/// See the module.
pub const SECTION: Section = Section {
    title: "How little of a frame table must be written",
    claim: "The first allocation of a machine succeeds in microseconds, however large; \
            a job writes the rest as fast as stores go.",
    run,
    command: "interleaf init",
};

const GIB: u64 = 1 << 30;

fn run(out: &mut Out) -> Result<(), Failure> {
    let (cpus, setting) = (&out.options().cpus, HostInfo::of_this_machine());
    let bytes = out.options().size(16 * GIB, GIB / 4);
    let map = MemoryMap { frames: bytes / 4096, nodes: 1, holes: Holes::Drawn(out.options().seed) };
    let pinned = out.options().pin();
    let machine = BootMachine::new(&map, cpus)?;
    let mut rows = Vec::new();
    for threads in 0..=cpus.len() {
        let when = if threads == 0 { InitMode::First } else { InitMode::Job(threads) };
        let boots: Result<Vec<Boot>, Failure> = (0..3).map(|_| machine.boot(when)).collect();
        rows.push(Row::of(threads, cpus.len(), &map, &boots?));
    }
    drop(pinned);
    out.line(Report::of(setting, &map, map.regions().len(), rows).body());
    out.line("\nagainst the best streaming store: interleaf bench init");
    Ok(())
}
