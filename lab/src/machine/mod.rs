//! The simulated machines: one software machine (memory, TLBs, page walker), four kinds of CPU.

pub mod baton;
pub mod fibers;
pub mod host;
pub mod sim;
pub mod soft;
pub mod watch;
