//! A CPU and a machine for the library's own unit tests and loom models: threads, ordinary memory, no MMU.

mod cpu;
mod format;
mod machine;
#[cfg(loom)]
mod sleepers;

pub use cpu::TestCpu;
pub use format::TestFormat;
pub use machine::TestMachine;
