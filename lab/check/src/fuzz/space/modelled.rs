//! Calls of a space and its descendants, each answered as the plain model answers.

use super::step::{Circumstances, Operation, Step};
use super::world::{PLACES, StepResult, Turn, World, with_world};
use crate::calls::{Call, MapLine, PageState};
use crate::library::{map_lines, page_state};
use crate::model;
use interleaf::machine::Format;
use interleaf::space::AddressSpace;
use interleaf_lab::machine::host::Host;
use interleaf_lab::machine::soft::SoftMachine;

/// The map, and the pages of the looked-at ranges.
type State = (Vec<MapLine>, Vec<(u64, PageState)>);

/// The spaces of the model, and which of them has which place.
struct Family {
    spaces: model::Spaces,
    places: [Option<usize>; PLACES],
}

impl Family {
    fn new(circumstances: &Circumstances) -> Self {
        let mut places = [None; PLACES];
        places[0] = Some(0);
        Self { spaces: model::Spaces::new(&circumstances.setting, 1), places }
    }

    /// The answer to a step of the space at a place that is not empty.
    fn take(&mut self, place: usize, operation: &Operation) -> StepResult {
        let space = self.places[place].expect("the library has a space there");
        match operation {
            Operation::Call(call) => StepResult::Call(self.spaces.call(space, call)),
            Operation::Fork { child } if self.places[*child].is_none() => match self.spaces.fork(space) {
                Ok(forked) => {
                    self.places[*child] = Some(forked);
                    StepResult::Done(0)
                }
                Err(errno) => StepResult::Refused(errno),
            },
            Operation::End { child } => match self.places[*child].take() {
                Some(ended) => {
                    self.spaces.end(ended);
                    StepResult::Done(0)
                }
                None => StepResult::Skipped,
            },
            _ => StepResult::Skipped,
        }
    }

    /// The state of each space, by place.
    fn states(&self, circumstances: &Circumstances) -> Vec<(usize, State)> {
        let state = |space| {
            let pages =
                looked_at(circumstances).filter_map(|addr| Some((addr, self.spaces.page(space, addr)?)));
            (self.spaces.map(space), pages.collect())
        };
        let living = self.places.iter().enumerate().filter_map(|(place, space)| Some((place, (*space)?)));
        living.map(|(place, space)| (place, state(space))).collect()
    }
}

/// Plays a sequence; returns its executions.
pub fn play<F: Format>(
    machine: &mut SoftMachine<Host, F>,
    circumstances: &Circumstances,
    steps: &[Step],
) -> Result<u64, String> {
    let mut model = Family::new(circumstances);
    with_world(machine, circumstances, |world| {
        let mut turn = None;
        for step in steps {
            let operation = &step.operation;
            Turn::to(&mut turn, world, (step.cpu, step.space));
            let place = world.place(step.space);
            let Some(answered) = answer(world, step) else { return Ok(steps.len() as u64) };
            let said = model.take(place, operation);
            if said != answered {
                return Err(format!(
                    "{operation:x?} of {place}\nthe model says {said:x?}, the library {answered:x?}"
                ));
            }
        }
        let is = world.spaces().map(|(place, space)| (place, state(&space, circumstances)));
        let (said, is) = (model.states(circumstances), is.collect::<Vec<_>>());
        if said != is {
            return Err(format!("the model's state is\n{said:#x?}\nthat of the library\n{is:#x?}"));
        }
        Ok(steps.len() as u64)
    })
}

/// The answer of the library. An operation that was refused because an allocation failed is done again.
/// `None` where the refused one has split a mapping, as it may, and the second one is refused too: perhaps by
/// the limit of mappings, which the model, that has no first attempt, has not met.
fn answer<F: Format>(world: &World<'_, '_, '_, Host, F>, step: &Step) -> Option<StepResult> {
    let perform = || world.perform(step.space, &step.operation);
    let Some(refusal) = step.refusal else { return Some(perform()) };
    let before = world.mappings();
    world.plan(refusal);
    let result = perform();
    let happened = world.cancel();
    let is_partial = matches!(step.operation, Operation::Call(Call::Mincore { .. }));
    if happened && !is_partial && result.is_lack(&step.operation) {
        let is_whole = world.mappings() == before;
        return Some(perform()).filter(|again| is_whole || !again.is_lack(&step.operation));
    }
    Some(result)
}

fn looked_at(circumstances: &Circumstances) -> impl Iterator<Item = u64> {
    circumstances.setting.looked_at().into_iter().flat_map(|range| range.step_by(4096))
}

fn state<F: Format>(space: &AddressSpace<'_, SoftMachine<Host, F>>, circumstances: &Circumstances) -> State {
    let inside = |start: u64| circumstances.setting.windows.iter().any(|window| window.contains(&start));
    let pages = looked_at(circumstances).filter_map(|addr| Some((addr, page_state(space, addr)?)));
    (map_lines(space, inside), pages.collect())
}
