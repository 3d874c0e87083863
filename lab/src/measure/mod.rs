//! Measuring: benchmarks in pairs, the workload of page faults, the boot of large machines, the end of large
//! guests, and the tour.

#![forbid(unsafe_code)]

pub mod bench;
pub mod calibrate;
pub mod checked;
pub mod fault;
pub mod garbage;
pub mod init;
mod options;
pub mod predicted;
pub mod teardown;
pub mod timed_machine;
pub mod tour;
pub mod zero;

pub use options::Options;
