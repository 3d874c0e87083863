//! What must hold, and the means to check it: memory calls as values, the host's Linux as oracle, random
//! sequences, and the shortest sequence on which two systems differ.

#![forbid(unsafe_code)]

pub mod calls;
#[cfg(feature = "experiments")]
pub mod compare;
#[cfg(feature = "experiments")]
pub mod conflicts;
pub mod drive;
#[cfg(feature = "experiments")]
pub mod fairness;
#[cfg(feature = "experiments")]
pub mod generate;
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
pub(crate) mod oracle_host;
#[cfg(feature = "experiments")]
pub mod pairs;
#[cfg(feature = "experiments")]
pub mod processes;
pub mod recount;
#[cfg(feature = "experiments")]
pub mod remote;
#[cfg(feature = "experiments")]
pub mod rng;
pub mod setting;
#[cfg(feature = "experiments")]
pub mod stress;
#[cfg(feature = "experiments")]
pub mod walkers;
pub mod zero_races;
