//! What no fault can avoid.

use super::{Out, Section};
use crate::error::Failure;
use crate::measure::bench::Bar;

/// See the module.
pub const SECTION: Section = Section {
    title: "What no fault can avoid",
    claim: "Zeroing the frame is the floor under every fault; a cold frame costs twice a warm one and more.",
    run,
    command: "interleaf bench machine.memset",
};

fn run(out: &mut Out) -> Result<(), Failure> {
    out.bench(&["machine.memset_warm", "machine.memset_cold"])?;
    let cold = out.shown_figure("machine.memset_cold").and_then(|f| f.judge(Bar::AtLeast(2.0)));
    out.judge("machine.memset_cold", cold);
    let points = out.shown_figure("machine.memset_cold").and_then(|f| f.curve.clone());
    let entries: Vec<(String, f64)> = points
        .into_iter()
        .flat_map(|curve| curve.points)
        .map(|(kib, ns)| (format!("{kib} KiB in turn"), ns))
        .collect();
    out.bars(&entries, "ns for one frame");
    Ok(())
}
