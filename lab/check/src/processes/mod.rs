//! Calls of several processes: one forks, both go on, and what each sees of the other is compared.
//!
//! ```text
//!   step               process 0        1         2        after each step, of each process that lives:
//!   0: calls              │                                the answer, the map, what MADV_DONTFORK and
//!   0 forks 1             ├────────────┐                   MADV_WIPEONFORK left, resident pages and their
//!   1: calls              │            │                   contents
//!   1 forks 2             │            ├─────────┐
//!   1 ends                │            ✕         │
//! ```
//!
//! Three systems carry out the same steps: the host's Linux, by processes that the oracle's child forks; the
//! model, whose fork copies a map of pages; and the library. Sharing of frames shows in contents alone: a
//! write that reaches another process, or is lost, is a difference.

mod compare;
mod generate;
mod library;
mod linux;
mod model;

pub use compare::{ProcessDifference, compare_processes};
pub use generate::{file_process_sequence, process_sequence};
pub use model::ModelProcesses;

use super::calls::{Call, CallResult, Errno, HugeLeaves, MapLine, PageState};
use interleaf_lab::os::child::MOST_PROCESSES;
use std::fmt;

/// One step. Processes are numbered; process 0 is there from the start and never ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProcessStep {
    /// A process makes a call.
    Call {
        /// The process.
        process: usize,
        /// What.
        call: Call,
    },
    /// A process forks.
    Fork {
        /// The process.
        process: usize,
        /// The number of the new process, which no other has.
        child: usize,
    },
    /// A process ends.
    End {
        /// Which.
        process: usize,
    },
}

/// What came of a step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StepResult {
    /// Nothing: there is no such process, or its child's number is taken.
    Skipped,
    /// The answer to a call.
    Answer(CallResult),
    /// A fork, refused or not.
    Forked(Result<(), Errno>),
    /// The process has ended.
    Ended,
}

/// What is seen of the memory of a process.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MemoryState {
    /// The map within the windows, upwards.
    pub map: Vec<MapLine>,
    /// Mappings for which there is advice about children.
    pub advice: Vec<ForkAdvice>,
    /// The resident pages of the looked-at ranges, upwards.
    pub pages: Vec<(u64, PageState)>,
    /// The huge leaves.
    pub huge: HugeLeaves,
}

/// What a child is to get of a mapping, where that is not a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ForkAdvice {
    /// First byte of the mapping.
    pub start: u64,
    /// Nothing (`dc` in `/proc/PID/smaps`).
    pub dont_fork: bool,
    /// The mapping without contents (`wf`).
    pub wipe_on_fork: bool,
}

impl ForkAdvice {
    /// The advice, if there is any.
    pub(super) fn of(start: u64, dont_fork: bool, wipe_on_fork: bool) -> Option<Self> {
        (dont_fork || wipe_on_fork).then_some(Self { start, dont_fork, wipe_on_fork })
    }
}

/// What is seen after a step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StepOutcome {
    /// What came of it.
    pub result: StepResult,
    /// The memory of each process that lives, by number.
    pub states: Vec<(usize, MemoryState)>,
}

/// A system that carries out the steps of several processes.
pub trait ProcessSystem {
    /// A word for reports.
    fn name(&self) -> &str;
    /// Carries out `steps`, the first process's memory being empty. One outcome for each.
    fn run(&mut self, steps: &[ProcessStep]) -> Vec<StepOutcome>;
}

impl ProcessStep {
    /// The process that takes the step.
    #[must_use]
    pub fn process(&self) -> usize {
        match *self {
            Self::Call { process, .. } | Self::Fork { process, .. } | Self::End { process } => process,
        }
    }

    /// Whether the step is one of that process, or makes it.
    fn names(&self, process: usize) -> bool {
        self.process() == process || matches!(*self, Self::Fork { child, .. } if child == process)
    }

    /// Whether the step can be taken by the processes that live.
    fn is_possible(&self, lives: impl Fn(usize) -> bool) -> bool {
        lives(self.process())
            && match *self {
                Self::Call { .. } => true,
                Self::Fork { child, .. } => child < MOST_PROCESSES && !lives(child),
                Self::End { process } => process != 0,
            }
    }
}

impl fmt::Display for ProcessStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call { process, call } => write!(f, "{process}: {call}"),
            Self::Fork { process, child } => write!(f, "{process}: fork() makes {child};"),
            Self::End { process } => write!(f, "{process}: exit();"),
        }
    }
}
