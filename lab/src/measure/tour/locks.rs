//! Why a fault should take no lock that others take.

use super::{Out, Section};
use crate::error::Failure;
use crate::measure::bench::Bar;

/// See the module.
pub const SECTION: Section = Section {
    title: "Why a fault should take no lock that others take",
    claim: "A lock taken shared is still written by every reader: two readers together do less than one.",
    run,
    command: "interleaf bench machine.rwlock",
};

fn run(out: &mut Out) -> Result<(), Failure> {
    out.bench(&["machine.rwlock_two"])?;
    let two = out.shown_figure("machine.rwlock_two").cloned();
    // Of one reader alone, on one CPU, nothing follows.
    let several = out.options().cpus.len() > 1;
    out.judge("machine.rwlock_two", two.as_ref().filter(|_| several).and_then(|f| f.judge(Bar::AtMost(1.0))));
    let entries = two.map(|f| {
        let one = f.yardstick_value.unwrap_or_default();
        [("one reader".to_string(), one / 1e6), ("two readers".to_string(), f.value / 1e6)]
    });
    if let Some(entries) = entries {
        out.bars(&entries, "million pairs per second");
    }
    if out.options().cpus.len() < 2 {
        out.line("this machine has one CPU: both sides are one reader");
    }
    Ok(())
}
