//! Random sequences of calls, of one process or of several that fork: the host's Linux beside the model.

use super::{Fuzzer, Played};
use crate::calls::{Call, System};
use crate::compare::compare;
use crate::generate::sequence;
use crate::generate_files::file_sequence;
use crate::model::Model;
use crate::oracle::Oracle;
use crate::processes::{
    ModelProcesses, ProcessStep, ProcessSystem, compare_processes, file_process_sequence, process_sequence,
};
use crate::setting::Setting;

/// Most calls of a sequence.
const LONGEST: u64 = 40;
/// What a case says that failed once, and holds now.
const AGREE: &str = "it does not fail again";

/// Sequences of one process: an oracle, and a model with its setting.
pub struct Sequences {
    linux: Oracle,
    model: Model,
}

impl Sequences {
    /// Starts the oracle.
    ///
    /// # Errors
    /// What this host lacks.
    pub fn new() -> std::io::Result<Self> {
        let linux = Oracle::open()?;
        let model = Model::new(linux.setting().clone());
        Ok(Self { linux, model })
    }
}

/// Every second one is about a file.
fn calls_of(seed: u64, setting: &Setting) -> Vec<Call> {
    if seed.is_multiple_of(2) {
        sequence(seed, LONGEST, setting)
    } else {
        file_sequence(seed, LONGEST, setting)
    }
}

/// Every second one where there is a file.
fn steps_of(seed: u64, setting: &Setting) -> Vec<ProcessStep> {
    let draw = if seed.is_multiple_of(2) { process_sequence } else { file_process_sequence };
    draw(seed, LONGEST, setting)
}

impl Fuzzer for Sequences {
    fn play(&mut self, seed: u64) -> Result<Played, String> {
        let calls = calls_of(seed, self.linux.setting());
        let agree = self.model.run(&calls) == System::run(&mut self.linux, &calls);
        let played = Played { target: "Linux against the model", executions: 1 };
        if agree { Ok(played) } else { Err("Linux and the model differ".into()) }
    }

    fn shortest(&mut self, seed: u64) -> String {
        let setting = self.linux.setting().clone();
        let calls = calls_of(seed, &setting);
        let difference = compare(&setting, &mut self.model, &mut self.linux, &calls);
        difference.map_or(AGREE.into(), |difference| difference.to_string())
    }
}

/// Sequences of several processes that fork. One takes as long as some fifty of one process: after each step
/// Linux is asked for the whole map of the process that took it, by a text of twenty lines for each mapping.
pub struct ProcessSequences {
    linux: Oracle,
    model: ModelProcesses,
}

impl ProcessSequences {
    /// Starts the oracle.
    ///
    /// # Errors
    /// What this host lacks.
    pub fn new() -> std::io::Result<Self> {
        let linux = Oracle::open()?;
        let model = ModelProcesses::new(linux.setting().clone());
        Ok(Self { linux, model })
    }
}

impl Fuzzer for ProcessSequences {
    fn play(&mut self, seed: u64) -> Result<Played, String> {
        let steps = steps_of(seed, self.linux.setting());
        let agree = self.model.run(&steps) == ProcessSystem::run(&mut self.linux, &steps);
        let played = Played { target: "Linux against the model, forks", executions: 1 };
        if agree { Ok(played) } else { Err("Linux and the model differ".into()) }
    }

    fn shortest(&mut self, seed: u64) -> String {
        let steps = steps_of(seed, self.linux.setting());
        let difference = compare_processes(&mut self.model, &mut self.linux, &steps);
        difference.map_or(AGREE.into(), |difference| difference.to_string())
    }
}
