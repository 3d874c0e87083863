//! The lab: records, replays, simulates and measures.

pub mod bench;
pub mod command;
pub mod doctor;
pub mod os;
pub mod show;
pub mod tour;
pub mod trace;
