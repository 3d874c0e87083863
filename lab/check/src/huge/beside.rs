//! The host's Linux with huge pages, beside the model and the library.
//!
//! ```text
//!                    rules of Linux                       rules of the library
//!   the host ─── same? ─── model           model ─── same? ─── library
//!                            └── where they differ: which rule? ──┘
//! ```
//!
//! Both sides must agree with the model in everything: answers, SIGSEGV, the map, resident pages and their
//! contents, huge leaves, and `AnonHugePages`. So what is left between the host and the library is what the
//! names of [`HugeRules`] say, and each is counted. Whether Linux had a free block of 2 MiB is its own
//! affair: a difference that does not come again, while the host has counted a lack, is told apart. So is one
//! beside which khugepaged has collapsed something.

use super::generate::huge_sequence;
use super::host::HostCounts;
use super::library_setting;
use crate::calls::{Outcome, System};
use crate::compare::compare;
use crate::huge_rules::HugeRules;
use crate::library::Library;
use crate::model::Model;
use crate::oracle::Oracle;
use crate::processes::{ModelProcesses, ProcessSystem, StepOutcome, compare_processes, process_sequence};
use crate::setting::Setting;
use interleaf::space::Path;
use interleaf::table::format::{Aarch64, X86_64};
use interleaf::vma::{HugePolicy, MthpPolicies};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Result;

/// What is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Calls of one process.
    Calls,
    /// Steps of up to four processes that fork.
    Processes,
}

/// What came of sequences. The field names are the JSON's and stay.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BesideCounts {
    /// Sequences that were played.
    pub sequences: u64,
    /// In which Linux and the library agreed in everything.
    pub same: u64,
    /// In which a rule, by name, made a difference.
    pub explained: BTreeMap<String, u64>,
    /// Which the host's supply of free blocks has decided.
    pub decided_by_supply: u64,
    /// In which khugepaged collapsed something.
    pub beside_khugepaged: u64,
}

impl BesideCounts {
    /// Per cent of the sequences that the host's supply has decided.
    #[must_use]
    pub fn supply_percent(&self) -> f64 {
        self.decided_by_supply as f64 * 100.0 / self.sequences.max(1) as f64
    }
}

/// The host and the library, each with the model that has its rules.
pub struct Beside {
    linux: Oracle,
    x86: Library<X86_64>,
    aarch64: Library<Aarch64>,
    /// The rules of Linux, then those of the library.
    settings: [Setting; 2],
    counts: HostCounts,
}

/// What two systems made of a sequence.
#[derive(PartialEq, Eq)]
enum Made {
    Calls(Box<Outcome>),
    Processes(Vec<StepOutcome>),
}

impl Beside {
    /// Starts the oracle, and machines for the library.
    ///
    /// # Errors
    /// What this host lacks, or has set otherwise.
    pub fn new(policy: HugePolicy, sizes: MthpPolicies) -> Result<Self> {
        let linux = Oracle::with_huge_pages(policy, sizes)?;
        let mut ours = library_setting(policy);
        ours.huge = ours.huge.with_sizes(sizes);
        Ok(Self {
            x86: Library::new(ours.clone(), Path::Speculative)?,
            aarch64: Library::new(ours.clone(), Path::Locked)?,
            settings: [linux.setting().clone(), ours],
            counts: HostCounts::read()?,
            linux,
        })
    }

    /// Plays the sequence of a seed, of at most `longest` calls.
    ///
    /// # Errors
    /// A difference that nothing explains, with the shortest sequence that shows it.
    pub fn play(
        &mut self,
        kind: Kind,
        seed: u64,
        longest: u64,
        counts: &mut BesideCounts,
    ) -> std::result::Result<(), String> {
        counts.sequences += 1;
        let said = self.model(kind, seed, longest, &self.settings[0]);
        let asked = self.ask(kind, seed, longest);
        if asked != said {
            return self.explain_once(kind, seed, longest, counts);
        }
        let ours = self.library(kind, seed, longest);
        if ours != self.model(kind, seed, longest, &self.settings[1]) {
            return Err(format!("seed {seed}: {}", self.library_difference(kind, seed, longest)));
        }
        if ours == asked {
            counts.same += 1;
            return Ok(());
        }
        let rules: Vec<String> = self.rules_that_matter(kind, seed, longest, &said);
        if rules.is_empty() {
            return Err(format!("seed {seed}: Linux and the library differ, and no rule says so"));
        }
        rules.into_iter().for_each(|rule| *counts.explained.entry(rule).or_default() += 1);
        Ok(())
    }

    /// Asks Linux again, which has differed from the model: whether something of the host's was the reason.
    fn explain_once(
        &mut self,
        kind: Kind,
        seed: u64,
        longest: u64,
        counts: &mut BesideCounts,
    ) -> std::result::Result<(), String> {
        for _ in 0..3 {
            let before = self.counts;
            self.counts = HostCounts::read().map_err(|error| error.to_string())?;
            if self.counts.lacking > before.lacking {
                counts.decided_by_supply += 1;
                return Ok(());
            }
            if self.counts.collapsed > before.collapsed {
                counts.beside_khugepaged += 1;
                return Ok(());
            }
            let said = self.model(kind, seed, longest, &self.settings[0]);
            if self.ask(kind, seed, longest) == said {
                return Err(format!("seed {seed}: a difference that came once, and not again"));
            }
        }
        Err(format!("seed {seed}: {}", self.linux_difference(kind, seed, longest)))
    }

    fn ask(&mut self, kind: Kind, seed: u64, longest: u64) -> Made {
        let setting = &self.settings[0];
        match kind {
            Kind::Calls => {
                let calls = huge_sequence(seed, longest, setting);
                Made::Calls(Box::new(System::run(&mut self.linux, &calls)))
            }
            Kind::Processes => {
                let steps = process_sequence(seed, longest, setting);
                Made::Processes(ProcessSystem::run(&mut self.linux, &steps))
            }
        }
    }

    fn library(&mut self, kind: Kind, seed: u64, longest: u64) -> Made {
        let setting = &self.settings[0];
        let is_other = seed % 4 == 3;
        match kind {
            Kind::Calls => {
                let calls = huge_sequence(seed, longest, setting);
                let library: &mut dyn System = if is_other { &mut self.aarch64 } else { &mut self.x86 };
                Made::Calls(Box::new(library.run(&calls)))
            }
            Kind::Processes => {
                let steps = process_sequence(seed, longest, setting);
                let library: &mut dyn ProcessSystem =
                    if is_other { &mut self.aarch64 } else { &mut self.x86 };
                Made::Processes(library.run(&steps))
            }
        }
    }

    /// What the model makes of the sequence, which is drawn for the host's setting, with the rules of a
    /// setting.
    fn model(&self, kind: Kind, seed: u64, longest: u64, setting: &Setting) -> Made {
        let drawn_for = &self.settings[0];
        match kind {
            Kind::Calls => {
                let calls = huge_sequence(seed, longest, drawn_for);
                Made::Calls(Box::new(Model::new(setting.clone()).run(&calls)))
            }
            Kind::Processes => {
                let steps = process_sequence(seed, longest, drawn_for);
                Made::Processes(ModelProcesses::new(setting.clone()).run(&steps))
            }
        }
    }

    /// The names of the rules of Linux without which the model says something else.
    fn rules_that_matter(&self, kind: Kind, seed: u64, longest: u64, said: &Made) -> Vec<String> {
        let differs = |setting: &Setting| self.model(kind, seed, longest, setting) != *said;
        let mut matter = Vec::new();
        for (name, rule) in HugeRules::LINUX.iter_names() {
            let mut setting = self.settings[0].clone();
            setting.huge.rules -= rule;
            if differs(&setting) {
                matter.push(name.to_lowercase());
            }
        }
        let zero_pages = self.settings[1].zero_pages;
        if differs(&Setting { zero_pages, ..self.settings[0].clone() }) {
            matter.push("inherited_zero_pages".into());
        }
        if matter.is_empty() {
            let mut setting = Setting { zero_pages, ..self.settings[0].clone() };
            setting.huge.rules = HugeRules::LIBRARY;
            if differs(&setting) {
                matter.push("several_rules_together".into());
            }
        }
        matter
    }

    fn linux_difference(&mut self, kind: Kind, seed: u64, longest: u64) -> String {
        let setting = self.settings[0].clone();
        match kind {
            Kind::Calls => {
                let calls = huge_sequence(seed, longest, &setting);
                let mut model = Model::new(setting.clone());
                told(compare(&setting, &mut model, &mut self.linux, &calls))
            }
            Kind::Processes => {
                let steps = process_sequence(seed, longest, &setting);
                let mut model = ModelProcesses::new(setting);
                told(compare_processes(&mut model, &mut self.linux, &steps))
            }
        }
    }

    fn library_difference(&mut self, kind: Kind, seed: u64, longest: u64) -> String {
        let [drawn_for, setting] = self.settings.clone();
        let is_other = seed % 4 == 3;
        match kind {
            Kind::Calls => {
                let calls = huge_sequence(seed, longest, &drawn_for);
                let library: &mut dyn System = if is_other { &mut self.aarch64 } else { &mut self.x86 };
                told(compare(&setting, &mut Model::new(setting.clone()), library, &calls))
            }
            Kind::Processes => {
                let steps = process_sequence(seed, longest, &drawn_for);
                let library: &mut dyn ProcessSystem =
                    if is_other { &mut self.aarch64 } else { &mut self.x86 };
                told(compare_processes(&mut ModelProcesses::new(setting), library, &steps))
            }
        }
    }
}

fn told(difference: Option<impl std::fmt::Display>) -> String {
    difference
        .map_or("a difference that came once, and not again".into(), |difference| format!("\n{difference}"))
}
