//! pft: all tasks write to one mapping at the same time, each to a part of its own. Only the touching is
//! timed.
//!
//! ```text
//!   task 0   map ─┐      ┌─ write part 0 ─┐      ┌─ unmap, again
//!   task 1        ├ meet ┤  write part 1  ├ meet ┤
//!   task 2       ─┘      └─ write part 2 ─┘      └─
//! ```

use super::{Worker, Workload};
use crate::error::Failure;

/// See the module.
pub const WORKLOAD: Workload = Workload {
    name: "pft",
    about: "all tasks write to one mapping at the same time, each to its own part (parallel fault test)",
    least_threads: 1,
    frames_of_page: 1,
    work,
};

fn work(worker: &Worker<'_, '_>) -> Result<(), Failure> {
    let (part, all) = (worker.pages(), worker.pages() * worker.nr_workers());
    loop {
        // The first task alone decides whether there is another round: all must agree.
        if worker.index() == 0 {
            let base = if worker.next_round() { Some(worker.map(all)?) } else { None };
            worker.publish(base);
        }
        if !worker.wait() {
            return Ok(());
        }
        let Some(base) = worker.published() else { return Ok(()) };
        let own = base.add(worker.index() * part);
        worker.timed(|| worker.write_each(own, part))?;
        if !worker.wait() {
            return Ok(());
        }
        if worker.index() == 0 {
            worker.unmap(base, all)?;
        }
    }
}
