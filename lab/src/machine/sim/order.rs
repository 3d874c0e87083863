//! Which CPU goes on: the one whose clock is earliest.

use super::profile::Ps;
use super::simulation::{NEVER, Simulation};
use crate::machine::fibers::Status;
use std::cmp::Reverse;

/// Low bits of an entry of the heap: the CPU.
const CPU_BITS: u32 = 12;

impl Simulation {
    /// Lets others go on whose clocks are earlier than this CPU's less `slack`, and handles an interrupt that
    /// has come.
    #[cold]
    pub(super) fn look_after_others(&self, slack: Ps) {
        if self.now.get() > self.horizon.get().saturating_add(slack) {
            self.leave(Status::Ready, Some(self.now.get()));
        }
        self.handle_if_due();
    }

    /// Leaves this CPU for the earliest, in state `status`; comes back when this is the earliest. Without
    /// `wakes_at` it waits for another CPU.
    pub(super) fn leave(&self, status: Status, wakes_at: Option<Ps>) {
        let me = self.cpus.running();
        self.states.borrow()[me].clock.set(wakes_at.unwrap_or(self.now.get()));
        self.cpus.set_status(me, status);
        match self.next(wakes_at.map(|clock| entry(clock, me))) {
            None => self.cpus.none_can_run(),
            Some(next) if next == me => {}
            Some(next) => {
                let mut report = self.report.borrow_mut();
                report.switches += 1;
                drop(report);
                self.cpus.go_to(next);
            }
        }
        self.resume(me);
    }

    /// The CPU with the earliest clock, of those in the heap and the one that leaves; it is ready from now
    /// on.
    fn next(&self, mine: Option<u64>) -> Option<usize> {
        let mut heap = self.heap.borrow_mut();
        let mut next = match mine {
            None => heap.pop(),
            Some(mine) => match heap.peek_mut() {
                Some(mut top) if top.0 < mine => Some(std::mem::replace(&mut *top, Reverse(mine))),
                _ => Some(Reverse(mine)),
            },
        };
        let states = self.states.borrow();
        while let Some(Reverse(found)) = next {
            let (clock, cpu) = split(found);
            if states[cpu].clock.get() == clock
                && matches!(self.cpus.status(cpu), Status::Ready | Status::Spinning(_) | Status::Computing)
            {
                self.cpus.set_status(cpu, Status::Ready);
                return Some(cpu);
            }
            next = heap.pop();
        }
        None
    }

    /// The CPU runs from now on.
    pub(super) fn resume(&self, cpu: usize) {
        self.now.set(self.states.borrow()[cpu].clock.get());
        let earliest = self.heap.borrow().peek().map_or(NEVER, |top| split(top.0).0);
        self.horizon.set(earliest);
        self.set_limit();
    }

    /// A CPU that is not in the heap, or is there with a later clock, is ready at `clock`.
    pub(super) fn make_ready_at(&self, cpu: usize, clock: Ps) {
        self.states.borrow()[cpu].clock.set(clock);
        self.heap.borrow_mut().push(Reverse(entry(clock, cpu)));
        self.horizon.set(self.horizon.get().min(clock));
        self.set_limit();
    }

    pub(super) fn set_limit(&self) {
        let arrives = self.states.borrow()[self.cpus.running()].arrives.get();
        let ahead = self.horizon.get().saturating_add(self.setting.slack);
        self.limit.set(ahead.min(arrives.saturating_sub(1)));
    }

    /// Something is due, of an interrupt or of another CPU.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.now.get() > self.limit.get()
    }
}

/// A CPU and its clock, in the order in which CPUs go on.
pub(super) fn entry(clock: Ps, cpu: usize) -> u64 {
    clock << CPU_BITS | cpu as u64
}

fn split(entry: u64) -> (Ps, usize) {
    (entry >> CPU_BITS, (entry & ((1 << CPU_BITS) - 1)) as usize)
}
