//! The library's conformance suite for platforms, run on this machine.

use super::{MACHINE, Metal, helpers};
use interleaf::frame::{AllocRequest, Memory};
use interleaf::machine::Machine;
use interleaf::machine::conformance::{self, FRAMES, Harness, Report};
use interleaf::units::{Order, PfnRange};

/// A block of at least [`FRAMES`] frames.
const BLOCK: Order = Order(5);

/// Runs the suite in frames of `memory`, with handlers of its own in place of the library's, which no other
/// code may need meanwhile: `dismiss` has helpers leave the library's. `None` where there is no memory.
pub fn run(
    memory: &Memory<'_, Metal>,
    harness: &(impl Harness<Metal> + Sync),
    dismiss: impl Fn(),
) -> Option<Report> {
    let block = memory.alloc(BLOCK, AllocRequest::DIRTY)?;
    let (interrupt, help) = (MACHINE.interrupt_handler(), helpers::handler());
    // SAFETY: no function is set.
    let _removed = unsafe { MACHINE.set_interrupt_handler(None) };
    helpers::take_away(dismiss);
    let frames = PfnRange::new(block.pfn(), block.pfn().add(FRAMES));
    // SAFETY: the frames were just allocated, no handler is set, and the suite's threads run in no space.
    let report = unsafe { conformance::run(&MACHINE, harness, frames) };
    // SAFETY: these were set before, and have not been replaced since.
    let is_set = unsafe { MACHINE.set_interrupt_handler(interrupt) };
    // SAFETY: as above.
    let is_helping = unsafe { MACHINE.set_helper_handler(help) };
    assert!(is_set && is_helping, "the suite has left a handler");
    drop(block);
    Some(report)
}
