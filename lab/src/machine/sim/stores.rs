//! The stores of whole pages: they drain by bandwidth, while the CPU goes on.
//!
//! ```text
//!   a page is written      the CPU goes on             all of it has drained
//!   |----------------------|===========================|
//!                          store.buffer lines are left  a read-modify-write, or a fence, waits until here
//! ```
//!
//! Other stores are not waited for: one to a line that the CPU has drains in less time than a gap.

use super::addresses::LINES_OF_PAGE;
use super::pages::Heat;
use super::profile::Ps;
use super::simulation::{CpuState, Simulation};
use crate::machine::watch::Place;
use interleaf::machine::AccessKind;
use interleaf::units::PAGE_SIZE;

/// What is waited for is no line.
const NO_LINE: u32 = u32::MAX;

impl Simulation {
    /// Whole pages are written and copied.
    pub(super) fn whole_pages(&self, cpu: &CpuState, (addr, len): (usize, usize), kind: AccessKind) {
        if self.now.get() > self.horizon.get() {
            self.look_after_others(0);
        }
        if !kind.writes() {
            // What is copied from is read while what is copied to is written.
            return;
        }
        for page in (addr..addr + len).step_by(PAGE_SIZE) {
            // Stores drain in order. Those that do not fit into the buffer are waited for.
            let begin = cpu.drained.get().max(self.now.get());
            let took = self.write_page(page, begin);
            let drained = begin + took;
            cpu.drained.set(drained);
            self.now.set(self.now.get().max(drained - self.left_of(took)));
        }
    }

    /// How long the stores of a page drain that begin to at `begin`.
    fn write_page(&self, addr: usize, begin: Ps) -> Ps {
        let me = self.cpus.running() as u32;
        let heat = self.lines.borrow_mut().write_page(me, addr);
        let mut report = self.report.borrow_mut();
        match heat {
            Heat::Warm => {
                report.pages_warm += 1;
                self.costs.zero_warm
            }
            Heat::Cold => {
                report.pages_cold += 1;
                let node = self.lines.borrow().node_of(me);
                let busy_until = &mut self.node_busy_until.borrow_mut()[node];
                *busy_until = (*busy_until).max(self.now.get()) + self.costs.page_bandwidth;
                let alone = self.costs.zero_cold;
                let queued = busy_until.saturating_sub(begin + alone);
                // What the CPU waits for here; for the rest it may wait later.
                let waited = queued - self.left_of(queued);
                report.bandwidth_queued += if self.is_measured() { waited } else { 0 };
                alone + queued
            }
        }
    }

    /// Of the time in which a page drains, what is left when the CPU goes on.
    fn left_of(&self, took: Ps) -> Ps {
        took * self.costs.store_buffer / Ps::from(LINES_OF_PAGE)
    }

    /// A read-modify-write and a fence wait until all stores before them have drained.
    #[inline]
    pub(super) fn wait_until_drained(&self, cpu: &CpuState, place: Place) {
        let left = cpu.drained.get().saturating_sub(self.now.get());
        if left > 0 {
            self.spend(left);
            self.note_wait((NO_LINE, 0, place), |wait| wait.drained += left);
        }
    }
}
