//! The cost of ordering memory, for readers and for writers.

use super::{Out, Section};
use crate::error::Failure;
use crate::measure::bench::Bar;

/// See the module.
pub const SECTION: Section = Section {
    title: "Who pays for being seen",
    claim: "A reader that fences pays at every read; \
            with membarrier readers pay nothing and writers all of it.",
    run,
    command: "interleaf bench machine.ordering",
};

fn run(out: &mut Out) -> Result<(), Failure> {
    out.bench(&["machine.fence", "machine.membarrier", "machine.membarrier_busy"])?;
    let fence = out.shown_figure("machine.fence").map_or(0.0, |f| f.high);
    let writer = out.shown_figure("machine.membarrier").and_then(|f| f.judge(Bar::AtLeast(fence)));
    out.judge("machine.membarrier", writer);
    Ok(())
}
