//! What must hold, and the means to check it: memory calls as values, the host's Linux as oracle, random
//! sequences, and the shortest sequence on which two systems differ.
//!
//! A crate of its own: the library is compiled here for the seeded machine, the recording machine and several
//! formats of tables, which the command `interleaf` does without. `interleaf check` builds and runs it.
//!
//! Without the feature `experiments` it is only the recount of a system at rest.

#![forbid(unsafe_code)]

pub mod calls;
#[cfg(feature = "experiments")]
pub mod command;
#[cfg(feature = "experiments")]
pub mod compare;
#[cfg(feature = "experiments")]
pub mod conflicts;
#[cfg(feature = "experiments")]
pub mod counts;
pub mod disk;
pub mod drive;
pub mod drive_file;
#[cfg(feature = "experiments")]
pub mod fairness;
pub mod file_calls;
#[cfg(feature = "experiments")]
pub mod fuzz;
#[cfg(feature = "experiments")]
pub mod generate;
#[cfg(feature = "experiments")]
pub mod generate_files;
#[cfg(feature = "experiments")]
pub mod huge;
pub mod huge_rules;
pub mod library;
#[cfg(feature = "experiments")]
pub mod mishap;
#[cfg(feature = "experiments")]
pub mod model;
#[cfg(feature = "experiments")]
pub mod oracle;
#[cfg(feature = "experiments")]
mod oracle_host;
#[cfg(feature = "experiments")]
pub mod pairs;
#[cfg(feature = "experiments")]
pub mod processes;
pub mod recount;
#[cfg(feature = "experiments")]
pub mod remote;
pub mod setting;
#[cfg(feature = "experiments")]
pub mod stress;
#[cfg(feature = "experiments")]
pub mod walkers;
pub mod zero_races;
