//! The simulated machines: one software machine (memory, TLBs, page walker), three kinds of CPU.

pub mod baton;
pub mod host;
pub mod soft;
pub mod watch;
