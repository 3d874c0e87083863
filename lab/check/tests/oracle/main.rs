//! The model and the host's Linux say the same: to random sequences, and rule by rule.

#![allow(clippy::single_range_in_vec_init, reason = "an expected map may have a single line")]

mod answers;
mod files;
mod huge;
mod limits;
mod merging;
mod pages;
mod policy;
mod processes;
mod random;
mod remap;
mod remote;
mod seals;
mod words;
mod world;
