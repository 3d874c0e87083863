//! Every allocation of an operation refused, in a random state.
//!
//! A sequence leads to a state; its last step is made with the n-th allocation failing, or with all from the
//! n-th on, for n = 1, 2, 3... until it makes fewer. Each time the answer is that of an undisturbed run, or
//! says that memory lacks and nothing has changed; then the same operation is answered as in the undisturbed
//! run.

use super::space::step::{Circumstances, Operation, Refusal, Step};
use super::space::world::{StepResult, Turn, World, with_world};
use crate::calls::{Call, advice};
use interleaf::machine::Format;
use interleaf_lab::machine::host::Host;
use interleaf_lab::machine::soft::{Flavour, SoftMachine};

/// More allocations than an operation makes.
const MOST: u64 = 400;

/// Plays all failures of the last of `steps`; returns how many there were.
///
/// # Errors
/// What does not hold.
pub fn play<F: Format>(
    machine: &mut SoftMachine<Host, F>,
    circumstances: &Circumstances,
    steps: &[Step],
) -> Result<u64, String> {
    let Some((last, setup)) = steps.split_last() else { return Ok(0) };
    let mut executions = 1;
    let plain = with_world(machine, circumstances, |world| {
        let mut turn = None;
        perform_all(world, &mut turn, setup);
        Turn::to(&mut turn, world, (last.cpu, last.space));
        Ok(world.perform(last.space, &last.operation))
    })?;
    for refusal in [Refusal::Nth, Refusal::From] {
        for nth in 1..=MOST {
            let happened = with_world(machine, circumstances, |world| {
                let mut turn = None;
                perform_all(world, &mut turn, setup);
                Turn::to(&mut turn, world, (last.cpu, last.space));
                refuse(world, last, refusal(nth), &plain)
            });
            let happened = happened.map_err(|what| format!("{:x?}: {what}", refusal(nth)))?;
            if !happened {
                break;
            }
            executions += 1;
            if nth == MOST {
                return Err(format!("{:x?} makes more than {MOST} allocations", last.operation));
            }
        }
    }
    Ok(executions)
}

pub(super) fn perform_all<'s, 'v, C: Flavour, F: Format>(
    world: &World<'_, 's, 'v, C, F>,
    turn: &mut Option<Turn<'s, 'v, C, F>>,
    steps: &[Step],
) {
    for step in steps {
        Turn::to(turn, world, (step.cpu, step.space));
        let _ = world.perform(step.space, &step.operation);
    }
}

/// Fails one allocation of a step, whose answer else is `plain`. Returns whether it made that many.
fn refuse<F: Format>(
    world: &World<'_, '_, '_, Host, F>,
    step: &Step,
    refusal: Refusal,
    plain: &StepResult,
) -> Result<bool, String> {
    // Cached frames would hide the need for memory.
    world.vm.trim();
    let before = world.mappings();
    world.plan(refusal);
    let answer = world.perform(step.space, &step.operation);
    let happened = world.cancel();
    if answer == *plain {
        return Ok(happened);
    }
    let operation = &step.operation;
    if !happened || !answer.is_lack(operation) {
        return Err(format!("{operation:x?} answers {answer:x?}, undisturbed {plain:x?}"));
    }
    // What is refused anyway may go part of the way first, and populating keeps what it has done.
    if !plain.is_refused() && !goes_page_by_page(operation) && world.mappings() != before {
        return Err(format!("{operation:x?} lacks memory and changed the map from\n{before:#x?}"));
    }
    let again = world.perform(step.space, operation);
    if again == *plain { Ok(true) } else { Err(format!("{operation:x?} again: {again:x?}, not {plain:x?}")) }
}

/// Whether an operation makes pages present one by one, and gives mappings their identity with the first.
pub(super) fn goes_page_by_page(operation: &Operation) -> bool {
    match operation {
        Operation::Call(Call::Madvise { advice: number, .. }) => {
            matches!(*number, advice::POPULATE_READ | advice::POPULATE_WRITE)
        }
        Operation::Call(Call::Write { .. } | Call::Read { .. }) | Operation::Fault { .. } => true,
        _ => false,
    }
}
