//! Fuzzers: random cases, played until a time is over or until there were as many as asked for.
//!
//! A case is a function of its seed: where one fails, the seed plays it again, and [`Fuzzer::shortest`] looks
//! for the shortest form of it that still fails.
//!
//! | group | what is played | an execution is |
//! |---|---|---|
//! | `space` | random operations on spaces that fork and end, with any words | one operation |
//! | `parse` | changed and random inputs for all that reads what others wrote | one input |
//! | `oracle` | calls of one process, the host's Linux beside the model | one sequence |
//! | `forks` | calls of several processes that fork, likewise | one sequence |
//!
//! [`Runner`] gives each group its share of the time on every thread. A case that panics, fails or does not
//! end within a minute is a failure.

#![forbid(unsafe_code)]

mod attempt;
mod mishap;
mod mishap_race;
mod oracle;
mod parse;
mod report;
mod run;
mod space;
mod words;

pub use oracle::{ProcessSequences, Sequences};
pub use parse::{Parser, Parsers};
pub use report::{FuzzReport, Row};
pub use run::{FuzzConfig, FuzzFailure, FuzzLimit, Runner};
pub use space::Spaces;

use serde::Serialize;

/// What is fuzzed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// Address spaces
    Space,
    /// Parsers of untrusted input
    Parse,
    /// The plain model, against the host's Linux
    Oracle,
    /// The same, of processes that fork
    Forks,
}

impl Group {
    /// All of them.
    pub const ALL: [Group; 4] = [Group::Space, Group::Parse, Group::Oracle, Group::Forks];

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Group::Space => "space",
            Group::Parse => "parse",
            Group::Oracle => "oracle",
            Group::Forks => "forks",
        }
    }

    /// Its share of the time.
    fn weight(self) -> f64 {
        match self {
            Group::Space => 2.0,
            Group::Parse => 1.0,
            Group::Oracle | Group::Forks => 0.5,
        }
    }
}

/// What a case that held was about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Played {
    /// The part of the group.
    pub target: &'static str,
    /// Executions.
    pub executions: u64,
}

/// Plays the cases of a group, on one thread.
pub trait Fuzzer {
    /// Plays the case of `seed`.
    ///
    /// # Errors
    /// What does not hold. It may panic as well.
    fn play(&mut self, seed: u64) -> Result<Played, String>;

    /// The case of `seed`, which fails, as short as it can be made, with what does not hold.
    fn shortest(&mut self, seed: u64) -> String;
}
