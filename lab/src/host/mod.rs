//! The timed machine: CPUs are host threads, at most as many as the host has cores.

mod cpu;
mod task;

pub use cpu::Host;
pub use task::{Switch, away, set_switch};
