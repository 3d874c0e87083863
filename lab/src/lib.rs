//! The lab: records, replays, simulates and measures.
//!
//! Without the feature `experiments` it is only machines.

#![cfg_attr(not(feature = "experiments"), allow(dead_code, reason = "experiments use the rest"))]

#[cfg(feature = "experiments")]
pub mod boot;
#[cfg(feature = "experiments")]
pub mod cli;
#[cfg(feature = "output")]
pub mod error;
pub mod linux_rules;
pub mod machine;
#[cfg(feature = "experiments")]
pub mod measure;
#[cfg(feature = "experiments")]
pub mod median;
pub mod os;
#[cfg(feature = "experiments")]
pub mod replay;
pub mod rng;
#[cfg(feature = "output")]
pub mod show;
#[cfg(feature = "traces")]
pub mod trace;
