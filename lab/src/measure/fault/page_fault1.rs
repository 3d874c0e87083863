//! will-it-scale's page_fault1: each task maps memory, writes to every page of it, unmaps it, and begins
//! again.
//!
//! The tasks' mappings lie next to each other and say the same, so they are one mapping most of the time,
//! which grows and shrinks at its ends while all tasks fault in the middle of it.

use super::{Worker, Workload};
use crate::error::Failure;

/// See the module.
pub const WORKLOAD: Workload = Workload {
    name: "page_fault1",
    about: "each task maps memory, writes to every page, unmaps it, again and again (will-it-scale)",
    least_threads: 1,
    frames_of_page: 1,
    work,
};

fn work(worker: &Worker<'_, '_>) -> Result<(), Failure> {
    let pages = worker.pages();
    if !worker.wait() {
        return Ok(());
    }
    worker.timed(|| {
        while worker.next_round() {
            let base = worker.map(pages)?;
            worker.write_each(base, pages)?;
            worker.unmap(base, pages)?;
        }
        Ok(())
    })
}
