//! The lab: records, replays, simulates and measures.
//!
//! Without the feature `experiments` it is only machines, and what recounts them.

#![cfg_attr(not(feature = "experiments"), allow(dead_code, reason = "experiments use the rest"))]

#[cfg(feature = "experiments")]
pub mod boot;
pub mod check;
#[cfg(feature = "experiments")]
pub mod cli;
#[cfg(feature = "experiments")]
pub mod error;
#[cfg(feature = "experiments")]
pub mod fuzz;
pub mod linux_rules;
pub mod machine;
#[cfg(feature = "experiments")]
pub mod measure;
#[cfg(feature = "experiments")]
pub mod median;
pub mod os;
#[cfg(feature = "experiments")]
pub mod replay;
#[cfg(feature = "experiments")]
pub mod show;
#[cfg(feature = "experiments")]
pub mod trace;
