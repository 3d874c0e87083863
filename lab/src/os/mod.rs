//! The only door to the host's system calls: one topic per file. Every unsafe block of the lab that calls the
//! host is behind a safe function here.

pub mod affinity;
#[cfg(feature = "experiments")]
pub mod checkout;
pub mod child;
pub mod end_requests;
mod end_signals;
pub mod fiber;
pub mod file_memory;
pub mod fork_cost;
pub mod futex;
pub mod host_info;
pub mod instructions;
pub mod lacking;
pub mod membarrier;
pub mod memory;
mod on_all_cpus;
pub mod page_cache;
pub mod pagemap;
pub mod pending_file;
pub mod perf;
pub mod process;
pub mod ptrace;
pub mod seals;
pub mod terminal;
pub mod touch;
pub mod zero_memory;

pub use on_all_cpus::on_all_cpus;

#[cfg(test)]
mod tests;
