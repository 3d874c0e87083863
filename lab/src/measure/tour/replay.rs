//! A real program replayed.

use super::{Out, Section};
use crate::error::Failure;
use crate::measure::bench::Verdict;
use crate::replay::{Replay, shipped};
use interleaf::space::Path;

/// See the module.
pub const SECTION: Section = Section {
    title: "A real program replayed",
    claim: "A recorded program runs again here, and every answer and the final map are Linux's.",
    run,
    command: "interleaf replay lab/traces/python.trace",
};

fn run(out: &mut Out) -> Result<(), Failure> {
    out.bench(&["replay.fault_heavy"])?;
    let trace = out.options().size(shipped::PYTHON, shipped::SQLITE);
    let replay = Replay::read_bytes(trace).map_err(Failure::usage)?;
    let report = replay.check(Path::Speculative, |_| ()).map_err(Failure::usage)?;
    let calls: u64 = report.calls.iter().map(|row| row.count.times).sum();
    let agreed: u64 = report.calls.iter().map(|row| row.count.agreed).sum();
    out.line(format!(
        "{}: {} faults, {agreed} of {calls} calls answered alike, {} of {} places chosen alike, \
         {} of {} final maps alike",
        report.command.join(" "),
        report.performed,
        report.places.agreed,
        report.places.of,
        report.maps.agreed,
        report.maps.of,
    ));
    let verdict = if report.unexplained == 0 { Verdict::Yes } else { Verdict::No };
    out.judge("differences that are not explained", Some(verdict));
    out.line(format!("differences from Linux that are not explained: {}", report.unexplained));
    out.line("time alone: interleaf bench replay");
    Ok(())
}
