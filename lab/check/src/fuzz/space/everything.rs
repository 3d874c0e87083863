//! Everything that two spaces and their descendants can be asked.

use super::step::{Circumstances, Operation, Step};
use super::world::{Turn, with_world};
use crate::calls::{Call, MapFlags};
use interleaf::machine::Format;
use interleaf::space::Place;
use interleaf_lab::machine::host::Host;
use interleaf_lab::machine::soft::SoftMachine;

/// Every so many steps the state before is kept, to see that a refusal changes nothing.
const COMPARED_ONE_IN: usize = 8;

/// Plays a sequence; returns its executions.
pub fn play<F: Format>(
    machine: &mut SoftMachine<Host, F>,
    circumstances: &Circumstances,
    steps: &[Step],
) -> Result<u64, String> {
    with_world(machine, circumstances, |world| {
        let mut turn = None;
        for (number, step) in steps.iter().enumerate() {
            Turn::to(&mut turn, world, (step.cpu, step.space));
            let before = number.is_multiple_of(COMPARED_ONE_IN).then(|| world.mappings());
            step.refusal.inspect(|refusal| world.plan(*refusal));
            let answer = world.perform(step.space, &step.operation);
            let _ = world.cancel();
            let changes_nothing = is_whole(&step.operation) && answer.is_refused();
            if before.is_some_and(|before| changes_nothing && before != world.mappings()) {
                return Err(format!(
                    "{:x?} was refused with {answer:x?}, and changed the map",
                    step.operation
                ));
            }
        }
        Ok(steps.len() as u64)
    })
}

/// Whether an operation is done as a whole or not at all. Others go mapping by mapping.
fn is_whole(operation: &Operation) -> bool {
    match operation {
        // Linux splits or unmaps what is in the way of a fixed mapping before it commits the pages.
        Operation::Call(Call::Mmap { flags, .. }) => !flags.contains(MapFlags::FIXED),
        Operation::Call(call) => matches!(call, Call::Munmap { .. } | Call::Mincore { .. }),
        Operation::Map(request) | Operation::Share { request, .. } => {
            !matches!(request.place, Place::Fixed(_))
        }
        Operation::Look { .. } | Operation::Fork { .. } | Operation::End { .. } => true,
        Operation::Protect { .. } | Operation::Bind { .. } | Operation::Fault { .. } => false,
    }
}
