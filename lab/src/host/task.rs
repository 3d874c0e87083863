//! Tasks: threads that take turns at a CPU.
//!
//! A timed run never has more running CPUs than the host has cores, else it measures the host's scheduler: a polled
//! acknowledgement among 8 threads on 2 cores takes 16 ms. Further threads queue for a CPU's turn. The owner gives it up
//! between two user instructions when a waiter's slice is over, when it sleeps, and in [`away`]; a task keeps its CPU for life.
//!
//! ```text
//!   task A   | runs ....... boundary: leaves, gives |            waits            | takes, enters, runs
//!   task B   | waits, slice over: raises HAND_OVER  | takes, enters, runs .. sleeps: leaves, gives |
//! ```
//!
//! *Leaves* and *enters* are the task's [`Switch`]: there an address space takes the CPU out of its flush set and catches up
//! by generation. A CPU that nobody owns is thus in no flush set, and nobody waits for its answer.

use crate::soft::bus::{Bus, HAND_OVER};
use crate::soft::seat;
use std::cell::RefCell;
use std::sync::Arc;

/// What a task does to its address space when it gives up its CPU and when it has one again.
pub trait Switch {
    /// The task is about to give up the CPU that it runs on.
    fn leaves(&self);
    /// The task runs on a CPU again.
    fn enters(&self);
}

thread_local!(static SWITCH: RefCell<Option<Arc<dyn Switch>>> = const { RefCell::new(None) });

/// Installs what this thread does at a switch; gives back what was installed.
pub fn set_switch(switch: Option<Arc<dyn Switch>>) -> Option<Arc<dyn Switch>> {
    SWITCH.replace(switch)
}

/// Gives up the CPU while `f` runs, which may block. `f` touches nothing of the library's. Without a CPU, just runs `f`.
pub fn away<R>(f: impl FnOnce() -> R) -> R {
    let Some(bus) = seat::bus() else { return f() };
    seat::assert_may_leave();
    let cpu = seat::cpu();
    let switch = SWITCH.with_borrow(Clone::clone);
    if let Some(switch) = &switch {
        switch.leaves();
    }
    seat::stand();
    bus.line(cpu).turn.give();
    let result = f();
    take_turn(&bus, cpu);
    if let Some(switch) = &switch {
        switch.enters();
    }
    result
}

/// Lets the next task have the CPU, and queues behind the last.
pub(super) fn hand_over() {
    let wanted = seat::with_line(|line| line.lower(HAND_OVER) != 0 && line.turn.is_wanted_racy());
    if wanted == Some(true) {
        away(|| ());
    }
}

fn take_turn(bus: &Arc<Bus>, cpu: interleaf::units::CpuId) {
    let line = bus.line(cpu);
    line.turn.take(|| line.raise(HAND_OVER));
    seat::sit(bus, cpu);
    seat::answer();
}
