//! Tasks: threads that share a CPU.
//!
//! A timed run never has more running CPUs than the host has cores, else it measures the host's scheduler: a
//! polled acknowledgement among 8 threads on 2 cores takes 16 ms. Further threads wait in a CPU's run queue.
//! The owner gives it up between two user instructions when a waiter's slice is over, when it sleeps, and in
//! [`without_cpu`]; a task never changes its CPU.
//!
//! ```text
//!   task A   | runs ....... boundary: leaves, gives |            waits            | takes, enters, runs
//!   task B   | waits, slice over: raises RESCHEDULE  | takes, enters, runs .. sleeps: leaves, gives |
//! ```
//!
//! *Leaves* and *enters* are the task's [`SwitchNotifier`], installed by
//! [`with_switch_notifier`](crate::machine::soft::with_switch_notifier): there an address space takes the CPU
//! out of its flush set and catches up by generation. A CPU without an owner is thus in no flush set, and no
//! flush waits for its acknowledgement.

use crate::machine::soft::bus::{Bus, RESCHEDULE};
use crate::machine::soft::{SwitchNotifier, current, switch_notifier};
use interleaf::machine::Machine;
use interleaf::space::{Active, AddressSpace};
use std::cell::RefCell;
use std::sync::Arc;

/// An address space that a task runs whenever it has its CPU. The CPU is in the space's flush set meanwhile.
#[derive(Debug)]
pub struct TaskSpace<'s, 'v, M: Machine> {
    space: &'s AddressSpace<'v, M>,
    /// Nothing while the task has no CPU.
    active: RefCell<Option<Active<'s, 'v, M>>>,
}

impl<'s, 'v, M: Machine> TaskSpace<'s, 'v, M> {
    /// The space, loaded on this CPU.
    pub fn new(space: &'s AddressSpace<'v, M>) -> Self {
        Self { space, active: RefCell::new(Some(space.activate(None))) }
    }
}

impl<M: Machine> SwitchNotifier for TaskSpace<'_, '_, M> {
    fn sched_out(&self) {
        self.active.take();
    }

    fn sched_in(&self) {
        self.active.replace(Some(self.space.activate(None)));
    }
}

/// Gives up the CPU while `f` runs, which may block. `f` touches nothing of the library's. Without a CPU,
/// just runs `f`.
pub fn without_cpu<R>(f: impl FnOnce() -> R) -> R {
    let Some(bus) = current::bus() else { return f() };
    current::assert_may_leave();
    let cpu = current::cpu();
    switch_notifier::installed(|switch| {
        switch.inspect(|switch| switch.sched_out());
        current::leave();
        bus.line(cpu).queue.release();
        let result = f();
        acquire_cpu(&bus, cpu);
        switch.inspect(|switch| switch.sched_in());
        result
    })
}

/// Lets the next task have the CPU, and queues behind the last.
pub(super) fn reschedule() {
    if current::lower(RESCHEDULE) != 0 && current::has_waiters_racy() {
        without_cpu(|| ());
    }
}

/// Lets a task that waits for this CPU have it at once, however short it has waited.
pub(super) fn yield_now() {
    if current::has_waiters_racy() {
        without_cpu(|| ());
    }
}

fn acquire_cpu(bus: &Arc<Bus>, cpu: interleaf::units::CpuId) {
    let line = bus.line(cpu);
    line.queue.acquire(|| line.raise(RESCHEDULE));
    current::enter(bus, cpu);
    current::handle_interrupts();
}
