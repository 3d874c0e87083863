//! Faults that take no lock.

use super::{Out, Section};
use crate::error::Failure;

/// See the module.
pub const SECTION: Section = Section {
    title: "Faults that take no lock",
    claim: "99 faults in 100 and more need no lock of the space, and so wait for nobody who maps meanwhile.",
    run,
    command: "interleaf fault mapper",
};

fn run(out: &mut Out) -> Result<(), Failure> {
    out.bench(&["paths.share_page_fault1", "paths.share_pft", "paths.share_mapper", "paths.time_mapper"])?;
    let entries = out.shown_figure("paths.time_mapper").map(|figure| {
        let locked = figure.yardstick_value.unwrap_or_default();
        [("under the lock".to_string(), locked / 1e6), ("speculative".to_string(), figure.value / 1e6)]
    });
    if let Some(entries) = entries {
        out.line("one task faults while another maps, writes to, protects and unmaps all the time:");
        out.bars(&entries, "million faults per second");
    }
    Ok(())
}
