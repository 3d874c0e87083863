//! Random sequences of calls, of one process or of several that fork: the host's Linux beside the model.

use super::{Fuzzer, Played};
use crate::check::calls::System;
use crate::check::compare::compare;
use crate::check::generate::sequence;
use crate::check::model::Model;
use crate::check::oracle::Oracle;
use crate::check::processes::{ModelProcesses, ProcessSystem, compare_processes, process_sequence};

/// An oracle, and models with its setting.
pub struct Sequences {
    linux: Oracle,
    model: Model,
    processes: ModelProcesses,
}

/// One sequence in this number has several processes: it takes about as much longer.
const FORKS: u64 = 16;
/// Most calls of a sequence.
const LONGEST: u64 = 40;

impl Sequences {
    /// Starts the oracle.
    ///
    /// # Errors
    /// What this host lacks.
    pub fn new() -> std::io::Result<Self> {
        let linux = Oracle::open()?;
        let model = Model::new(linux.setting().clone());
        let processes = ModelProcesses::new(linux.setting().clone());
        Ok(Self { linux, model, processes })
    }

    /// Plays the steps of several processes.
    fn play_forks(&mut self, seed: u64) -> Result<Played, String> {
        let steps = process_sequence(seed, LONGEST, self.linux.setting());
        let agree = self.processes.run(&steps) == ProcessSystem::run(&mut self.linux, &steps);
        let played = Played { target: "Linux against the model, forks", executions: 1 };
        if agree { Ok(played) } else { Err("Linux and the model differ".into()) }
    }
}

impl Fuzzer for Sequences {
    fn play(&mut self, seed: u64) -> Result<Played, String> {
        if seed.is_multiple_of(FORKS) {
            return self.play_forks(seed);
        }
        let calls = sequence(seed, LONGEST, self.linux.setting());
        let agree = self.model.run(&calls) == System::run(&mut self.linux, &calls);
        let played = Played { target: "Linux against the model", executions: 1 };
        if agree { Ok(played) } else { Err("Linux and the model differ".into()) }
    }

    fn shortest(&mut self, seed: u64) -> String {
        const AGREE: &str = "it does not fail again";
        let setting = self.linux.setting().clone();
        if seed.is_multiple_of(FORKS) {
            let steps = process_sequence(seed, LONGEST, &setting);
            let difference = compare_processes(&mut self.processes, &mut self.linux, &steps);
            return difference.map_or(AGREE.into(), |difference| difference.to_string());
        }
        let calls = sequence(seed, LONGEST, &setting);
        let difference = compare(&setting, &mut self.model, &mut self.linux, &calls);
        difference.map_or(AGREE.into(), |difference| difference.to_string())
    }
}
