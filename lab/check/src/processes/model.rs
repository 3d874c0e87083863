//! The obvious model as a system of processes.

use super::{ForkAdvice, MemoryState, ProcessStep, ProcessSystem, StepOutcome, StepResult};
use crate::calls::PAGE;
use crate::model::{Spaces, VmFlags};
use crate::setting::Setting;
use interleaf_lab::os::child::MOST_PROCESSES;

/// Processes of the obvious model.
#[derive(Clone, Debug)]
pub struct ModelProcesses {
    setting: Setting,
}

/// The spaces of the model, and which is whose.
struct Family {
    spaces: Spaces,
    space_of: [Option<usize>; MOST_PROCESSES],
}

impl ModelProcesses {
    /// For sequences in this setting.
    #[must_use]
    pub fn new(setting: Setting) -> Self {
        Self { setting }
    }

    fn state(&self, spaces: &Spaces, space: usize) -> MemoryState {
        let advice = spaces.mappings(space).filter_map(|mapping| {
            let has = |flag| mapping.flags.contains(flag);
            ForkAdvice::of(mapping.start, has(VmFlags::DONTFORK), has(VmFlags::WIPEONFORK))
        });
        let pages = self.setting.looked_at().into_iter().flat_map(|range| range.step_by(PAGE as usize));
        MemoryState {
            map: spaces.map(space),
            advice: advice.collect(),
            pages: pages.filter_map(|addr| Some((addr, spaces.page(space, addr)?))).collect(),
            huge: spaces.huge_leaves(space),
        }
    }
}

impl Family {
    fn take(&mut self, step: &ProcessStep) -> StepResult {
        let Some(space) = self.space_of[step.process()].filter(|_| step.is_possible(|n| self.lives(n)))
        else {
            return StepResult::Skipped;
        };
        match *step {
            ProcessStep::Call { call, .. } => StepResult::Answer(self.spaces.call(space, &call)),
            ProcessStep::Fork { child, .. } => {
                StepResult::Forked(self.spaces.fork(space).map(|space| self.space_of[child] = Some(space)))
            }
            ProcessStep::End { process } => {
                self.spaces.end(space);
                self.space_of[process] = None;
                StepResult::Ended
            }
        }
    }

    fn lives(&self, process: usize) -> bool {
        self.space_of[process].is_some()
    }
}

impl ProcessSystem for ModelProcesses {
    fn name(&self) -> &str {
        "model"
    }

    fn run(&mut self, steps: &[ProcessStep]) -> Vec<StepOutcome> {
        let mut space_of = [None; MOST_PROCESSES];
        space_of[0] = Some(0);
        let mut family = Family { spaces: Spaces::new(&self.setting, 1), space_of };
        let mut take = |step| {
            let result = family.take(step);
            let living = family.space_of.iter().enumerate();
            let states = living.filter_map(|(process, space)| Some((process, (*space)?)));
            let states = states.map(|(process, space)| (process, self.state(&family.spaces, space)));
            StepOutcome { result, states: states.collect() }
        };
        steps.iter().map(&mut take).collect()
    }
}
