//! The host's Linux as a system of processes: those that the oracle's child forks.

use super::{ForkAdvice, MemoryState, ProcessStep, ProcessSystem, StepOutcome, StepResult};
use crate::calls::Errno;
use crate::oracle::{Oracle, map_lines, step as step_of};
use crate::oracle_host as host;
use interleaf_lab::os::child::MOST_PROCESSES;
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
    fn state(&mut self, process: usize) -> Result<MemoryState> {
        let (lines, advice) = host::lines_and_advice(self.child.pid_of(process))?;
        let lines = self.within_windows(lines);
        let inside = |advice: &ForkAdvice| lines.iter().any(|line| line.range().contains(&advice.start));
        let advice = advice.into_iter().filter(inside).collect();
        let (pages, huge) = (self.pages(process, &lines), self.huge_leaves(process, &lines));
        Ok(MemoryState { map: map_lines(&lines), advice, pages, huge })
    }

    /// The states of all processes that live. Those in `known` are taken as they are.
    fn states(&mut self, mut known: Vec<(usize, MemoryState)>) -> Result<Vec<(usize, MemoryState)>> {
        let unknown = |process: &usize| known.iter().all(|(other, _)| other != process);
        for process in (0..MOST_PROCESSES).filter(unknown).collect::<Vec<_>>() {
            if self.child.lives(process) {
                known.push((process, self.state(process)?));
            }
        }
        known.sort_by_key(|(process, _)| *process);
        Ok(known)
    }

    /// Carries out the steps. What a process has for itself alone no other one changes, in Linux: after a
    /// step those are read that it names, or that map shared memory. Those that were not are read in the end,
    /// and must be as they were known.
    fn take_all(&mut self, steps: &[ProcessStep]) -> Result<Vec<StepOutcome>> {
        self.results(&[])?;
        let (mut outcomes, mut seen) = (Vec::new(), Vec::new());
        for step in steps {
            let result = self.take(step)?;
            let stays = |&(process, ref state): &(usize, MemoryState)| {
                let is_shared = state.map.iter().any(|line| line.object.is_some());
                !is_shared && !step.names(process) && self.child.lives(process)
            };
            seen.retain(stays);
            seen = self.states(seen)?;
            outcomes.push(StepOutcome { result, states: seen.clone() });
        }
        assert!(
            steps.is_empty() || self.states(Vec::new())? == seen,
            "a process has changed another one's memory"
        );
        for process in (1..MOST_PROCESSES).filter(|process| self.child.lives(*process)).collect::<Vec<_>>() {
            self.end(process)?;
        }
        Ok(outcomes)
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
