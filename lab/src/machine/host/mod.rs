//! The timed machine: CPUs are host threads, at most as many as the host has cores.

mod cpu;
mod task;

pub use crate::machine::soft::{SwitchNotifier, with_switch_notifier};
pub use cpu::Host;
pub use task::{TaskSpace, without_cpu};
