//! The software machine: real memory, software TLBs and a walker, under CPUs that host threads enter.
//!
//! ```text
//!   host thread --enters---> CPU (a line of the bus, a TLB, a root)
//!                              |
//!   user instruction: boundary, TLB hit? --no--> walker --no entry--> fault handler (the library), again
//!                              |
//!                              v
//!                            arena (real memory at physical addresses)
//! ```
//!
//! One [`SoftMachine`] serves three flavours of CPU: [`Host`](crate::machine::host::Host) runs on threads and
//! is timed, `Watch` records which lines are touched, `Baton` runs one CPU at a time as a seed decides.
//! docs/design/machines.md has the details.

pub mod arena;
mod bare;
mod boot_map;
pub mod bus;
mod claims;
mod config;
mod copies;
pub mod current;
mod device;
mod entered;
pub mod flavour;
mod harness;
mod helpers;
mod inspect;
mod machine;
mod memory;
mod mmu;
mod nowhere;
mod of_thread;
mod record_window;
pub mod run_queue;
mod set;
mod shared;
pub mod stream;
pub(crate) mod switch_notifier;
#[cfg(test)]
pub(crate) mod tests;
pub mod tlb;
mod user;
pub mod walker;

pub use arena::Fill;
pub use bare::BareMemory;
pub use boot_map::boot_map;
pub use config::MachineConfig;
pub use copies::{Copied, Copies};
pub use entered::{Entered, Running};
pub use flavour::Flavour;
pub(crate) use harness::run_with_helper;
pub use harness::{Threads, refuse};
pub use machine::SoftMachine;
pub(crate) use of_thread::cpu_of_thread;
pub use shared::Listener;
pub use switch_notifier::{SwitchNotifier, with_switch_notifier};
pub use tlb::{Translation, Violation};
pub use user::{FaultHandler, Signal};
