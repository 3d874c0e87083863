//! Calls of one space, each answered as the plain model answers.

use super::step::{Circumstances, Operation, Step};
use super::world::{StepResult, Turn, World, with_world};
use crate::check::calls::{Call, CallResult, MapLine, PageState};
use crate::check::library::{map_lines, page_state};
use crate::check::model::Model;
use crate::machine::host::Host;
use crate::machine::soft::SoftMachine;
use interleaf::machine::Format;

/// The map, and the pages of the looked-at ranges.
type State = (Vec<MapLine>, Vec<(u64, PageState)>);

/// Plays a sequence; returns its executions.
pub fn play<F: Format>(
    machine: &mut SoftMachine<Host, F>,
    circumstances: &Circumstances,
    steps: &[Step],
) -> Result<u64, String> {
    let mut model = Model::new(circumstances.setting.clone());
    with_world(machine, circumstances, |world| {
        let mut turn = None;
        for step in steps {
            let Operation::Call(call) = &step.operation else { continue };
            Turn::to(&mut turn, world, (step.cpu, step.space));
            let (said, answered) = (model.call(call), answer(world, step, call));
            if said != answered {
                return Err(format!("{call}\nthe model says {said:x?}, the library {answered:x?}"));
            }
        }
        let (said, is) = (state_of_model(&model, circumstances), state(world, circumstances));
        if said != is {
            return Err(format!("the model's state is\n{said:#x?}\nthat of the library\n{is:#x?}"));
        }
        Ok(steps.len() as u64)
    })
}

/// The answer of the library. A call that was refused because an allocation failed is made again.
fn answer<F: Format>(world: &World<'_, '_, Host, F>, step: &Step, call: &Call) -> CallResult {
    let perform = || match world.perform(step.space, &step.operation) {
        StepResult::Call(result) => result,
        other => unreachable!("a call is answered as one: {other:?}"),
    };
    let Some(refusal) = step.refusal else { return perform() };
    world.plan(refusal);
    let result = perform();
    let happened = world.cancel();
    let is_partial = matches!(call, Call::Mincore { .. });
    if happened && !is_partial && StepResult::Call(result.clone()).is_lack(&step.operation) {
        return perform();
    }
    result
}

fn state_of_model(model: &Model, circumstances: &Circumstances) -> State {
    let addrs = circumstances.setting.looked_at().into_iter().flat_map(|range| range.step_by(4096));
    (model.map(), addrs.filter_map(|addr| Some((addr, model.page(addr)?))).collect())
}

fn state<F: Format>(world: &World<'_, '_, Host, F>, circumstances: &Circumstances) -> State {
    let (space, setting) = (&world.spaces[0], &circumstances.setting);
    let inside = |start: u64| setting.windows.iter().any(|window| window.contains(&start));
    let addrs = setting.looked_at().into_iter().flat_map(|range| range.step_by(4096));
    let pages = addrs.filter_map(|addr| Some((addr, page_state(space, addr)?)));
    (map_lines(space, inside), pages.collect())
}
