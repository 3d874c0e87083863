//! The frame table of a large machine.

use super::{Out, Section};
use crate::error::Failure;
use crate::measure::bench::Verdict;
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
    let (mut rows, mut firsts) = (Vec::new(), Vec::new());
    for threads in 0..=cpus.len() {
        let when = if threads == 0 { InitMode::First } else { InitMode::Job(threads) };
        let boots: Result<Vec<Boot>, Failure> = (0..3).map(|_| machine.boot(when)).collect();
        firsts.push(boots.as_ref().map_or(Vec::new(), |boots| boots.iter().map(|b| b.first_ns).collect()));
        rows.push(Row::of(threads, cpus.len(), &map, &boots?));
    }
    drop(pinned);
    if !out.options().small {
        out.judge("the first allocation", Some(is_sooner(&firsts)));
    }
    out.line(Report::of(setting, &map, map.regions().len(), rows).body());
    out.line("\nagainst the best streaming store: interleaf bench init");
    Ok(())
}

/// Whether each boot that defers has its first allocation in a tenth of the time of each that does not. The
/// first list is of boots that write everything.
fn is_sooner(firsts: &[Vec<f64>]) -> Verdict {
    let Some((whole, deferred)) = firsts.split_first() else { return Verdict::CannotTell };
    let bounds = |times: &mut dyn Iterator<Item = &f64>| {
        times.fold((f64::MAX, 0.0_f64), |(low, high), &ns| (low.min(ns), high.max(ns)))
    };
    let (whole, deferred) = (bounds(&mut whole.iter()), bounds(&mut deferred.iter().flatten()));
    match (deferred.1 * 10.0 <= whole.0, deferred.0 * 10.0 > whole.1) {
        (true, _) => Verdict::Yes,
        (_, true) => Verdict::No,
        _ => Verdict::CannotTell,
    }
}

#[cfg(test)]
#[path = "tests/init.rs"]
mod tests;
