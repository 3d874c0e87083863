//! Random steps of several processes.

use super::ProcessStep;
use crate::calls::{Call, advice};
use crate::generate::sequence;
use crate::generate_files::file_sequence;
use crate::setting::Setting;
use interleaf_lab::os::child::MOST_PROCESSES;
use interleaf_lab::rng::Rng;

/// A [`sequence`] of calls dealt out to processes, with forks, ends, and advice about children in between.
/// Reproducible from `seed`.
#[must_use]
pub fn process_sequence(seed: u64, longest: u64, setting: &Setting) -> Vec<ProcessStep> {
    among_processes(seed, sequence(seed, longest, setting), setting)
}

/// As [`process_sequence`], where there is a file: calls about it and mappings of it among the others.
#[must_use]
pub fn file_process_sequence(seed: u64, longest: u64, setting: &Setting) -> Vec<ProcessStep> {
    among_processes(seed, file_sequence(seed, longest, setting), setting)
}

fn among_processes(seed: u64, calls: Vec<Call>, setting: &Setting) -> Vec<ProcessStep> {
    // The calls of the seed alone must not decide what happens between them.
    let mut rng = Rng::new(seed ^ 0x666f_726b);
    let (mut steps, mut living, mut process) = (Vec::new(), vec![0], 0);
    for call in calls {
        if rng.chance(1, 3) {
            process = rng.pick(&living);
        }
        steps.push(ProcessStep::Call { process, call });
        if rng.chance(1, 6)
            && let Some(call) = advice_beside(&call, &mut rng).filter(|call| setting.admits(call))
        {
            steps.push(ProcessStep::Call { process, call });
        }
        if rng.chance(1, 7)
            && let Some(child) = (1..MOST_PROCESSES).find(|number| !living.contains(number))
        {
            let process = rng.pick(&living);
            steps.push(ProcessStep::Fork { process, child });
            living.push(child);
        }
        if rng.chance(1, 20) && living.len() > 1 {
            let ending = living.remove(1 + rng.below(living.len() as u64 - 1) as usize);
            steps.push(ProcessStep::End { process: ending });
            process = if process == ending { 0 } else { process };
        }
    }
    steps
}

/// Advice about children, for the range of a call.
fn advice_beside(call: &Call, rng: &mut Rng) -> Option<Call> {
    let all = [advice::DONTFORK, advice::DOFORK, advice::WIPEONFORK, advice::WIPEONFORK, advice::KEEPONFORK];
    let advice = rng.pick(&all);
    match *call {
        Call::Mmap { hint: addr, len, .. }
        | Call::Munmap { addr, len }
        | Call::Mprotect { addr, len, .. }
        | Call::Madvise { addr, len, .. } => Some(Call::Madvise { addr, len, advice }),
        _ => None,
    }
}
