//! Workloads that fault: tasks that touch memory of one address space, through the software TLB, counted and
//! checked.
//!
//! | file | what |
//! |---|---|
//! | `page_fault1` `files` `pft` `mapper` | the workloads, one each; in `files` two |
//! | `runner` | sets a workload up, runs its tasks, checks that everything adds up afterwards |
//! | `worker` | what a task of a workload can do |
//! | `barrier` | where tasks wait for each other |
//! | `counts` | what is counted, and what must add up |
//! | `report` | how that reaches people and programs |
//!
//! To add one: a file with one `pub const WORKLOAD: Workload`, and its name in [`WORKLOADS`].

mod barrier;
mod counts;
mod files;
mod mapper;
mod page_fault1;
mod pft;
pub mod report;
mod runner;
mod worker;
mod workload;

pub use counts::{Role, TaskCounts, Timing};
pub use files::Disk;
pub use runner::{Length, RunResult, Setup, WorkloadMachine, WorkloadRunner};
pub use worker::Worker;
pub use workload::Workload;

use crate::error::Failure;

/// Every workload.
pub const WORKLOADS: &[Workload] =
    &[page_fault1::WORKLOAD, files::PRIVATE, files::SHARED, pft::WORKLOAD, mapper::WORKLOAD];

/// The workload of this name.
///
/// # Errors
/// Names those that there are.
pub fn find(name: &str) -> Result<Workload, Failure> {
    let known: Vec<&str> = WORKLOADS.iter().map(|workload| workload.name).collect();
    let found = WORKLOADS.iter().find(|workload| workload.name == name);
    found.copied().ok_or_else(|| Failure::usage(format!("no workload `{name}`: one of {}", known.join(", "))))
}
