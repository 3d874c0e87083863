//! A CPU and a machine for the library's own unit tests and loom models: threads, ordinary memory, MMUs that
//! only those ask who want to see stale translations.

mod cpu;
mod format;
#[cfg(loom)]
mod lend;
mod machine;
mod mmu;
#[cfg(loom)]
mod sleepers;

pub use cpu::TestCpu;
pub use format::{TestFormat, ThreeLevels, TwoLevels};
#[cfg(loom)]
pub use lend::lend;
pub use machine::TestMachine;
