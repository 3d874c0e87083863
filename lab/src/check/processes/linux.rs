//! The host's Linux as a system of processes: those that the oracle's child forks.

use super::{ForkAdvice, MemoryState, ProcessStep, ProcessSystem, StepOutcome, StepResult};
use crate::check::calls::{Call, Errno, advice};
use crate::check::oracle::{Oracle, map_lines, step as step_of};
use crate::check::oracle_host::{self as host, HostLine};
use crate::os::child::MOST_PROCESSES;
use std::io::Result;

impl Oracle {
    fn take(&mut self, step: &ProcessStep) -> Result<StepResult> {
        if !step.is_possible(|process| self.child.lives(process)) {
            return Ok(StepResult::Skipped);
        }
        Ok(match *step {
            ProcessStep::Call { process, call } => {
                assert!(self.setting.admits(&call), "calls stay within the windows");
                let slot = self.fill_scratch(process, &[call])[0];
                let result = self.child.run(process, &[step_of(&call, slot)])?[0];
                StepResult::Answer(self.answer(process, slot, &call, result))
            }
            ProcessStep::Fork { process, child } => {
                let forked = self.child.fork(process, child);
                if let Err(Some(errno)) = forked.as_ref().map_err(std::io::Error::raw_os_error) {
                    return Ok(StepResult::Forked(Err(Errno(errno))));
                }
                forked?;
                self.watch(child)?;
                StepResult::Forked(Ok(()))
            }
            ProcessStep::End { process } => {
                self.end(process)?;
                StepResult::Ended
            }
        })
    }

    fn end(&mut self, process: usize) -> Result<()> {
        self.forget(process);
        self.child.end(process)
    }

    /// What is seen of a process now.
    fn look(&mut self, process: usize) -> Result<Known> {
        let (lines, advice) = host::lines_and_advice(self.child.pid_of(process))?;
        let lines = self.within_windows(lines);
        let inside = |advice: &ForkAdvice| lines.iter().any(|line| line.range().contains(&advice.start));
        let advice = advice.into_iter().filter(inside).collect();
        let pages = self.pages(process, &lines);
        let state = MemoryState { map: map_lines(&lines), advice, pages };
        Ok(Known { process, lines, state })
    }

    /// What is seen of a process after a step, which did not change what `effect` leaves out.
    fn view_after(&mut self, known: Known, effect: Effect) -> Result<Known> {
        let Known { process, mut lines, mut state } = known;
        match effect {
            Effect::Advice => return self.look(process),
            Effect::Map if !state.advice.is_empty() => return self.look(process),
            Effect::Map => {
                lines = self.lines(process);
                state.map = map_lines(&lines);
            }
            Effect::Pages => {}
        }
        state.pages = self.pages(process, &lines);
        Ok(Known { process, lines, state })
    }

    /// What is seen of all processes that live, after a step. Read is what the step may have changed, in
    /// Linux: of the process that it names; of others the pages, where they map shared memory.
    fn views_after(&mut self, step: &ProcessStep, before: Vec<Known>) -> Result<Vec<Known>> {
        let mut views = Vec::new();
        for known in before.into_iter().filter(|known| self.child.lives(known.process)).collect::<Vec<_>>() {
            let maps_shared = known.lines.iter().any(|line| line.shared);
            let effect = match step.process() == known.process {
                true => Some(Effect::of(step)),
                false => maps_shared.then_some(Effect::Pages),
            };
            views.push(match effect {
                Some(effect) => self.view_after(known, effect)?,
                None => known,
            });
        }
        for process in 0..MOST_PROCESSES {
            if self.child.lives(process) && views.iter().all(|known| known.process != process) {
                views.push(self.look(process)?);
            }
        }
        views.sort_by_key(|known| known.process);
        Ok(views)
    }

    /// Carries out the steps. Whether Linux has changed what no step may change is seen in the end, when
    /// everything is read.
    fn take_all(&mut self, steps: &[ProcessStep]) -> Result<Vec<StepOutcome>> {
        self.results(&[])?;
        let (mut outcomes, mut views) = (Vec::new(), Vec::new());
        for step in steps {
            let result = self.take(step)?;
            views = self.views_after(step, views)?;
            outcomes.push(StepOutcome { result, states: states(&views) });
        }
        let mut all = Vec::new();
        for process in views.iter().map(|known| known.process) {
            all.push(self.look(process)?);
        }
        assert!(states(&all) == states(&views), "a step has changed more of the host's memory than it may");
        for process in (1..MOST_PROCESSES).filter(|process| self.child.lives(*process)).collect::<Vec<_>>() {
            self.end(process)?;
        }
        Ok(outcomes)
    }
}

/// What was seen of a process.
struct Known {
    process: usize,
    /// Its map within the windows.
    lines: Vec<HostLine>,
    state: MemoryState,
}

fn states(views: &[Known]) -> Vec<(usize, MemoryState)> {
    views.iter().map(|known| (known.process, known.state.clone())).collect()
}

/// What a step may change of the process that takes it; each kind what those before it do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// Which pages are resident, and their contents.
    Pages,
    /// The map, and which mappings the advice about children is for.
    Map,
    /// Advice about children.
    Advice,
}

impl Effect {
    fn of(step: &ProcessStep) -> Self {
        let about_children = [advice::DONTFORK, advice::DOFORK, advice::WIPEONFORK, advice::KEEPONFORK];
        match *step {
            ProcessStep::Call {
                call: Call::Read { .. } | Call::Write { .. } | Call::Mincore { .. }, ..
            } => Effect::Pages,
            ProcessStep::Call { call: Call::Madvise { advice, .. }, .. }
                if about_children.contains(&advice) =>
            {
                Effect::Advice
            }
            ProcessStep::Call { .. } | ProcessStep::Fork { .. } | ProcessStep::End { .. } => Effect::Map,
        }
    }
}

impl ProcessSystem for Oracle {
    fn name(&self) -> &str {
        "Linux"
    }

    fn run(&mut self, steps: &[ProcessStep]) -> Vec<StepOutcome> {
        self.take_all(steps).expect("no sequence of admitted calls kills a process")
    }
}
