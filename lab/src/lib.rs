//! The lab: records, replays, simulates and measures.

pub mod boot;
pub mod check;
pub mod cli;
pub mod error;
pub mod fuzz;
pub mod machine;
pub mod measure;
pub mod median;
pub mod os;
pub mod replay;
pub mod show;
pub mod trace;
