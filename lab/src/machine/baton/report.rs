//! How a run went.

use crate::machine::fibers::Verdict;
use crate::machine::watch::{Labels, Place};
use interleaf::machine::AccessKind;
use interleaf::units::CpuId;
use std::fmt;

/// What a CPU did in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// Touched shared memory, from a place in the source.
    Access {
        /// Kind of the access.
        kind: AccessKind,
        /// First byte.
        addr: usize,
        /// Place in the source.
        place: Place,
    },
    /// Waited in a loop.
    Relax,
    /// Went to sleep on a word.
    Sleep(usize),
    /// Woke CPUs that sleep on a word.
    Wake(usize),
    /// Interrupted another CPU.
    Interrupt(CpuId),
    /// Came to the end of its program.
    End,
}

/// One step of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Counted from 1.
    pub number: u64,
    /// The CPU.
    pub cpu: CpuId,
    /// Kind of the step.
    pub what: StepKind,
}

/// A run, as its seed made it.
#[derive(Clone, Debug)]
pub struct Report {
    /// The seed, which makes the same run again.
    pub seed: u64,
    /// How it ended.
    pub verdict: Verdict,
    /// Steps taken.
    pub steps: u64,
    /// Number of switches to another CPU.
    pub switches: u64,
    /// Whether a CPU stopped for ever, as it was told to: not where it came to its end before.
    pub stopped: bool,
    /// A number that two runs share if they took the same steps: CPUs, kinds and places, not addresses.
    pub fingerprint: u64,
    /// The last steps.
    pub last: Vec<Step>,
    /// Number of CPUs.
    pub nr_cpus: u32,
}

impl Report {
    /// Whether all went well.
    pub fn passed(&self) -> bool {
        self.verdict == Verdict::Passed
    }

    /// The verdict and the last steps, a column for each CPU.
    pub fn show<'a>(&'a self, labels: &'a Labels) -> impl fmt::Display + 'a {
        fmt::from_fn(move |f| {
            writeln!(
                f,
                "seed {}: {}, {} steps, {} switches",
                self.seed, self.verdict, self.steps, self.switches
            )?;
            write!(f, "{:>8}", "step")?;
            (0..self.nr_cpus).try_for_each(|cpu| write!(f, "  {:WIDTH$}", format!("cpu {cpu}")))?;
            for step in &self.last {
                let indent = step.cpu.index() * (WIDTH + 2) + 2;
                write!(f, "\n{:>8}{:indent$}{}", step.number, "", step.what.show(labels))?;
            }
            writeln!(f)
        })
    }
}

/// Width of a CPU's column.
const WIDTH: usize = 44;

impl StepKind {
    fn show(self, labels: &Labels) -> String {
        let short = |place: Place| {
            let file = place.file().rsplit('/').take(2).collect::<Vec<_>>();
            format!("{}:{}", file.into_iter().rev().collect::<Vec<_>>().join("/"), place.line())
        };
        match self {
            StepKind::Access { kind: AccessKind::Fence, place, .. } => format!("fence  {}", short(place)),
            StepKind::Access { kind, addr, place } => {
                let kind = format!("{kind:?}").to_lowercase();
                format!("{kind:6} {} {}", short(place), labels.name(addr))
            }
            StepKind::Relax => "relax".into(),
            StepKind::Sleep(word) => format!("sleep  {}", labels.name(word)),
            StepKind::Wake(word) => format!("wake   {}", labels.name(word)),
            StepKind::Interrupt(cpu) => format!("interrupt {cpu:?}"),
            StepKind::End => "end".into(),
        }
    }

    /// A number for the fingerprint: nothing that differs from run to run.
    pub(super) fn digest(self) -> u64 {
        let place = |place: Place| u64::from(place.line()) << 8 ^ u64::from(place.column()) << 40;
        match self {
            StepKind::Access { kind, place: at, .. } => 1 + kind as u64 + place(at),
            StepKind::Relax => 11,
            StepKind::Sleep(_) => 12,
            StepKind::Wake(_) => 13,
            StepKind::Interrupt(cpu) => 14 + u64::from(cpu.0),
            StepKind::End => 300,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.show(&Labels::new()).fmt(f)
    }
}
