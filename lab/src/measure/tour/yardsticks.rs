//! What is there to beat.

use super::{Out, Section};
use crate::error::Failure;

/// See the module.
pub const SECTION: Section = Section {
    title: "What there is to beat",
    claim: "These are the crates a small kernel takes today, each doing the work that ours is held against.",
    run,
    command: "interleaf bench yardstick",
};

fn run(out: &mut Out) -> Result<(), Failure> {
    let names =
        ["yardstick.buddy_fresh", "yardstick.buddy_used", "yardstick.ax_space", "yardstick.rangemap_lookup"];
    out.bench(&names)?;
    out.line("ax_space maps 64 pages, touches and unmaps them; a lookup is among 10 000 ranges");
    Ok(())
}
