//! One task maps, writes to, protects and unmaps small pieces of memory all the time, while the others fault
//! in mappings of their own in the same space: what a lock of the whole space costs those that have nothing
//! to do with each other.

use super::{Role, Worker, Workload};
use crate::error::Failure;

/// See the module.
pub const WORKLOAD: Workload = Workload {
    name: "mapper",
    about: "one task maps, writes to, protects and unmaps all the time, \
            the others fault in their own mappings",
    least_threads: 2,
    frames_of_page: 1,
    work,
};

/// What the mapping task maps at a time: a thread's stack, a buffer.
const PIECE_PAGES: u64 = 16;

fn work(worker: &Worker<'_, '_>) -> Result<(), Failure> {
    if worker.index() == 0 { maps(worker) } else { faults(worker) }
}

/// Goes on until the others are done.
fn maps(worker: &Worker<'_, '_>) -> Result<(), Failure> {
    worker.set_role(Role::Maps);
    if !worker.wait() {
        return Ok(());
    }
    worker.timed(|| {
        while worker.others_running() {
            let base = worker.map(PIECE_PAGES)?;
            worker.write_each(base, 1)?;
            worker.protect_read_only(base, PIECE_PAGES)?;
            worker.unmap(base, PIECE_PAGES)?;
        }
        Ok(())
    })
}

/// Writes to every page, gives them back, and begins again; the mapping stays.
fn faults(worker: &Worker<'_, '_>) -> Result<(), Failure> {
    let pages = worker.pages();
    let base = worker.map(pages)?;
    if worker.wait() {
        worker.timed(|| {
            while worker.next_round() {
                worker.write_each(base, pages)?;
                worker.discard(base, pages)?;
            }
            Ok(())
        })?;
    }
    worker.unmap(base, pages)
}
