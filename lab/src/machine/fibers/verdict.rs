//! How a run ended.

use interleaf::units::CpuId;
use std::fmt;

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every program came to its end, and the scenario's own checks hold.
    Passed,
    /// A check failed, on a CPU or (`None`) in the scenario around the CPUs.
    Failed {
        /// Where.
        cpu: Option<CpuId>,
        /// What the panic said.
        message: String,
    },
    /// No CPU can run: these CPUs wait, on these words.
    Deadlock(Vec<(CpuId, usize)>),
    /// The steps ran out.
    Livelock,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Passed => f.write_str("passed"),
            Verdict::Failed { cpu: Some(cpu), message } => write!(f, "failed on {cpu:?}: {message}"),
            Verdict::Failed { cpu: None, message } => write!(f, "failed: {message}"),
            Verdict::Deadlock(sleepers) => {
                f.write_str("deadlock:")?;
                sleepers.iter().try_for_each(|(cpu, word)| write!(f, " {cpu:?} sleeps on {word:#x}"))
            }
            Verdict::Livelock => f.write_str("livelock: the steps ran out"),
        }
    }
}
