//! What the library's own floors cost.

use super::{Out, Section};
use crate::error::Failure;

/// See the module.
pub const SECTION: Section = Section {
    title: "What the floors under a fault cost",
    claim: "A read section costs a fraction of a pin, a frame a fraction of a set's; \
            a lock no more than std's.",
    run,
    command: "interleaf bench sync",
};

fn run(out: &mut Out) -> Result<(), Failure> {
    out.bench(&["sync.read_section", "sync.share_pair"])?;
    out.bench(&["frame.pair", "frame.pair_used"])?;
    out.line("frames alone: interleaf bench frame");
    Ok(())
}
