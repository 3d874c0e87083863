//! Tasks: threads that take turns at a CPU.
//!
//! A timed run never has more running CPUs than the host has cores, else it measures the host's scheduler: a
//! polled acknowledgement among 8 threads on 2 cores takes 16 ms. Further threads queue for a CPU's turn. The
//! owner gives it up between two user instructions when a waiter's slice is over, when it sleeps, and in
//! [`away`]; a task keeps its CPU for life.
//!
//! ```text
//!   task A   | runs ....... boundary: leaves, gives |            waits            | takes, enters, runs
//!   task B   | waits, slice over: raises HAND_OVER  | takes, enters, runs .. sleeps: leaves, gives |
//! ```
//!
//! *Leaves* and *enters* are the task's [`Switch`], installed by [`with_switch`](crate::machine::soft::with_switch):
//! there an address space takes the CPU out of its flush set and catches up by generation. A CPU that nobody
//! owns is thus in no flush set, and nobody waits for its answer.

use crate::machine::soft::bus::{Bus, HAND_OVER};
use crate::machine::soft::{Switch, seat, switch};
use interleaf::machine::Machine;
use interleaf::space::AddressSpace;
use std::sync::Arc;

/// A task that runs an address space takes its CPU out of the space's flush set while it has none.
impl<M: Machine> Switch for AddressSpace<'_, M> {
    fn leaves(&self) {
        self.leave_cpu();
    }

    fn enters(&self) {
        self.enter_cpu();
    }
}

/// Gives up the CPU while `f` runs, which may block. `f` touches nothing of the library's. Without a CPU,
/// just runs `f`.
pub fn away<R>(f: impl FnOnce() -> R) -> R {
    let Some(bus) = seat::bus() else { return f() };
    seat::assert_may_leave();
    let cpu = seat::cpu();
    switch::installed(|switch| {
        switch.inspect(|switch| switch.leaves());
        seat::stand();
        bus.line(cpu).turn.give();
        let result = f();
        take_turn(&bus, cpu);
        switch.inspect(|switch| switch.enters());
        result
    })
}

/// Lets the next task have the CPU, and queues behind the last.
pub(super) fn hand_over() {
    let wanted = seat::with_line(|line| line.lower(HAND_OVER) != 0 && line.turn.is_wanted_racy());
    if wanted == Some(true) {
        away(|| ());
    }
}

/// Lets a task that waits for this CPU have it at once, however short it has waited.
pub(super) fn yield_now() {
    if seat::with_line(|line| line.turn.is_wanted_racy()) == Some(true) {
        away(|| ());
    }
}

fn take_turn(bus: &Arc<Bus>, cpu: interleaf::units::CpuId) {
    let line = bus.line(cpu);
    line.turn.take(|| line.raise(HAND_OVER));
    seat::sit(bus, cpu);
    seat::answer();
}
