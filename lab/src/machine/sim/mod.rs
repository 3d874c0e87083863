//! The machine of virtual time: the library's real code on 1 to 4 096 CPUs, each with a clock of its own.
//!
//! The CPU whose clock is earliest goes on. An access takes as long as the cache line needs to come: nothing
//! where the CPU has it, a profile's cost where another CPU, another socket or memory has it, and longer
//! where other CPUs want it too.
//!
//! ```text
//!   access ─► own gap ─► later than another CPU? that one goes on
//!                        │
//!                        ▼
//!            the CPU has the line ──────────────► on
//!            it has not: queue for it, its way ─► clock + wait, noted by line and place
//! ```
//!
//! | file | what |
//! |---|---|
//! | `profile` `profiles/` | what things cost, each number with its source |
//! | `topology` | which CPUs share a cache, and memory |
//! | `addresses` | host addresses as numbers of lines that are the same in every run |
//! | `lines` | which CPU has which line, and what it costs to get it |
//! | `pages` `stores` | the CPU that wrote a whole page last; how its stores drain |
//! | `simulation` `order` `access` | a run; the CPU that goes on; what an access takes |
//! | `waiting` `park` | wait loops, sleep, interrupts; loops are left out while nothing changes |
//! | `waits` `report` | what CPUs waited for, and where |
//! | `cpu` `scenario` `machine` | a CPU of the library's; a run; memory on nodes |
//!
//! A run is a function of its setting: the same seed gives the same clocks, wherever the host has put memory.
//! docs/design/virtual-time.md says what is simulated, what is not, and what that does to results.

mod access;
mod addresses;
mod cpu;
mod harness;
mod lines;
mod machine;
mod order;
mod pages;
mod park;
mod profile;
mod report;
mod scenario;
mod simulation;
mod stores;
#[cfg(test)]
mod tests;
mod topology;
mod waiting;
mod waits;

pub use super::fibers::{Program, Verdict};
pub use cpu::Sim;
pub use harness::Simulated;
pub use lines::Transfers;
pub use machine::NodeMachine;
pub use profile::{Costs, Profile, Ps};
pub use report::Report;
pub use scenario::{Parking, Setting, Stage, measured, meet, now_ps, pass, run};
pub use topology::Placement;
pub use waits::Wait;
