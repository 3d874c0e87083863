//! A thread that runs on a CPU of the machine, and the error of inspecting a CPU that runs.

use super::bus::{Bus, RESCHEDULE};
use super::current::{self, CpuBinding};
use interleaf::units::CpuId;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// A thread on a CPU; it leaves when this is dropped.
#[derive(Debug)]
#[must_use = "the thread leaves the CPU when this is dropped"]
pub struct Entered {
    bus: Arc<Bus>,
    cpu: CpuId,
    _thread: PhantomData<*const ()>,
}

impl Entered {
    pub(super) fn on(bus: &Arc<Bus>, cpu: CpuId) -> Self {
        let line = bus.line(cpu);
        line.queue.acquire(|| line.raise(RESCHEDULE));
        current::enter(bus, cpu);
        current::handle_interrupts();
        Self { bus: bus.clone(), cpu, _thread: PhantomData }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let here = CpuBinding { machine: self.bus.id(), cpu: self.cpu };
        if !std::thread::panicking() {
            current::leave();
        } else if current::binding() == here {
            // Locks that the panic left held would fail the checks of an orderly departure.
            drop(current::suspend());
            self.bus.line(self.cpu).vacate();
        } else {
            return;
        }
        self.bus.line(self.cpu).queue.release();
    }
}

/// A thread runs on the CPU, so its TLB cannot be inspected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Running(pub CpuId);

impl fmt::Display for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is running", self.0)
    }
}

impl std::error::Error for Running {}
