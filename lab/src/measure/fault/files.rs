//! will-it-scale's page_fault2 and page_fault3: each task maps a file of its own, writes to every page of it,
//! unmaps it, and begins again. All pages are in the cache before the clock starts.
//!
//! | | the mapping | a store |
//! |---|---|---|
//! | page_fault2 | private | copies the page of the cache |
//! | page_fault3 | shared | maps the page of the cache, which is dirty |

use super::{Worker, Workload};
use crate::error::Failure;
use crate::measure::timed_machine::TimedMachine;
use interleaf::frame::PageFill;
use interleaf::object::{PageAnswer, PageContents, Pager, PagerKey};
use interleaf::space::Sharing;

/// Stores to a private mapping.
pub const PRIVATE: Workload = Workload {
    name: "page_fault2",
    about: "each task maps a file of its own privately, writes to every page, unmaps it, again and again \
            (will-it-scale)",
    least_threads: 1,
    frames_of_page: 2,
    work: |worker| work(worker, Sharing::Private),
};

/// Stores to a shared mapping.
pub const SHARED: Workload = Workload {
    name: "page_fault3",
    about: "each task maps a file of its own shared, writes to every page, unmaps it, again and again \
            (will-it-scale)",
    least_threads: 1,
    frames_of_page: 1,
    work: |worker| work(worker, Sharing::Shared),
};

/// Where files of the timed machine lie: every page is there, with zeros, and is written at once.
#[derive(Debug)]
pub struct Disk;

impl Pager<TimedMachine> for Disk {
    fn try_page(&self, _: PagerKey, _: u64, _: &mut PageFill<'_, TimedMachine>) -> PageAnswer {
        PageAnswer::Ready
    }

    fn is_written_back(&self, _: PagerKey) -> bool {
        true
    }

    fn write_back(&self, _: PagerKey, _: u64, _: &PageContents<'_, '_, TimedMachine>) -> PageAnswer {
        PageAnswer::Ready
    }
}

fn work(worker: &Worker<'_, '_>, sharing: Sharing) -> Result<(), Failure> {
    let pages = worker.pages();
    let file = worker.file(pages)?;
    if !worker.wait() {
        return Ok(());
    }
    worker.timed(|| {
        while worker.next_round() {
            let base = worker.map_file(&file, sharing, pages)?;
            worker.write_each(base, pages)?;
            worker.unmap(base, pages)?;
        }
        Ok(())
    })
}
