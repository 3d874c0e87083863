//! What must hold, and the means to check it: memory calls as values, the host's Linux as oracle, random
//! sequences, and the shortest sequence on which two systems differ.

#![forbid(unsafe_code)]

pub mod calls;
pub mod compare;
pub mod conflicts;
pub mod drive;
pub mod fairness;
pub mod generate;
pub mod library;
pub mod mishap;
pub mod model;
pub mod oracle;
pub(crate) mod oracle_host;
pub mod pairs;
pub mod processes;
pub mod recount;
pub mod rng;
pub mod setting;
pub mod stress;
