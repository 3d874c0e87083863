//! Random sequences of calls: the host's Linux beside the plain model.

use super::{Fuzzer, Played};
use crate::check::calls::System;
use crate::check::compare::compare;
use crate::check::generate::sequence;
use crate::check::model::Model;
use crate::check::oracle::Oracle;

/// An oracle, and a model with its setting.
pub struct Sequences {
    linux: Oracle,
    model: Model,
}

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
        Ok(Self { linux, model })
    }
}

impl Fuzzer for Sequences {
    fn play(&mut self, seed: u64) -> Result<Played, String> {
        let calls = sequence(seed, LONGEST, self.linux.setting());
        let agree = self.model.run(&calls) == self.linux.run(&calls);
        let played = Played { target: "Linux against the model", executions: 1 };
        if agree { Ok(played) } else { Err("Linux and the model differ".into()) }
    }

    fn shortest(&mut self, seed: u64) -> String {
        let setting = self.linux.setting().clone();
        let calls = sequence(seed, LONGEST, &setting);
        let difference = compare(&setting, &mut self.model, &mut self.linux, &calls);
        difference.map_or("it does not fail again".into(), |difference| difference.to_string())
    }
}
