//! A CPU and a machine for the library's own unit tests and loom models: threads, ordinary memory, and MMUs
//! for tests of stale translations.

mod barrier;
mod bytes;
mod copies;
mod cpu;
#[cfg(all(test, not(loom)))]
#[path = "tests/defaults.rs"]
mod defaults;
#[cfg(all(test, not(loom)))]
#[path = "tests/expedited.rs"]
mod expedited;
mod format;
mod interrupt_lines;
#[cfg(loom)]
mod leak;
mod machine;
mod mmu;
#[cfg(test)]
mod played;
mod record_window;
#[cfg(loom)]
mod sleepers;
#[cfg(all(test, loom, target_os = "linux"))]
mod stacks;
mod zeroed_memory;

pub use cpu::TestCpu;
pub use format::{RememberingFormat, TestFormat, ThreeLevels, TwoLevels};
#[cfg(loom)]
pub use leak::with_leaked;
pub use machine::TestMachine;
#[cfg(test)]
pub use played::played;
