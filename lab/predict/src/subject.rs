//! What is predicted: a workload by its name, or a recorded program.

use crate::line_limit::LineLimit;
use crate::linux::Way;
use crate::sample::Sample;
use crate::system;
use crate::trace::Replay;
use crate::workload::Named;
use interleaf_lab::error::Failure;
use interleaf_lab::machine::sim::Setting;

/// What is predicted.
pub enum Subject {
    /// A workload.
    Workload(Named),
    /// Recorded threads.
    Trace(Replay),
}

impl Subject {
    /// What it is called.
    pub fn name(&self) -> String {
        match self {
            Subject::Workload(workload) => workload.name.into(),
            Subject::Trace(replay) => replay.program.command.clone(),
        }
    }

    /// What its CPUs do.
    pub fn about(&self) -> String {
        let Replay { program, copies } = match self {
            Subject::Workload(workload) => return workload.about.into(),
            Subject::Trace(replay) => replay,
        };
        let processes = if *copies == 1 { String::new() } else { format!("{copies} processes, each of ") };
        let left_out = match program.other_processes {
            0 => String::new(),
            others => format!("; left out: {others} of the trace's processes"),
        };
        let plural = if program.threads == 1 { "" } else { "s" };
        format!("recorded: {processes}{} thread{plural}, as private memory{left_out}", program.threads)
    }

    /// What is counted, in the plural.
    pub fn operations(&self) -> &'static str {
        match self {
            Subject::Workload(workload) => workload.operations,
            Subject::Trace(_) => "faults and calls",
        }
    }

    /// Whether its CPUs take faults.
    pub fn has_faults(&self) -> bool {
        match self {
            Subject::Workload(workload) => workload.has_faults(),
            Subject::Trace(_) => true,
        }
    }

    /// What the line allows that its CPUs share, on so many CPUs, if that is its only limit.
    ///
    /// # Errors
    /// How the run failed that measures it.
    pub fn line_limit(&self, setting: Setting, cpus: u32) -> Result<Option<LineLimit>, Failure> {
        match self {
            Subject::Workload(workload) => LineLimit::of(workload, setting, cpus),
            Subject::Trace(_) => Ok(None),
        }
    }

    /// Whether Linux's locks are modelled for it.
    pub fn has_linux_locks(&self) -> bool {
        match self {
            Subject::Workload(workload) => workload.is_one_process(),
            Subject::Trace(_) => false,
        }
    }

    /// Runs it on so many CPUs.
    ///
    /// # Errors
    /// What the host says, or how the run failed.
    pub fn run(&self, setting: Setting, way: Way, cpus: u32) -> Result<Sample, Failure> {
        match self {
            Subject::Workload(workload) => workload.run(setting, way, cpus),
            Subject::Trace(replay) => system::run(setting, replay, way, cpus),
        }
    }
}
