//! The cost of ordering memory, for readers and for writers.

use super::{Out, Section};
use crate::error::Failure;

/// See the module.
pub const SECTION: Section = Section {
    title: "Who pays for being seen",
    claim: "A reader that fences pays at every read; \
            with membarrier readers pay nothing and writers all of it.",
    run,
    command: "interleaf bench machine.ordering",
};

fn run(out: &mut Out) -> Result<(), Failure> {
    out.bench(&["machine.fence", "machine.membarrier", "machine.membarrier_busy"])
}
