//! The timed machine: CPUs are host threads, at most as many as the host has cores.

#![forbid(unsafe_code)]

mod cpu;
mod task;

pub use crate::machine::soft::{Switch, with_switch};
pub use cpu::Host;
pub use task::away;
