//! What CPUs of the test machine ask of each other: interrupts, and to expedite helpers.

use super::TestCpu;
use crate::sync::atomic::{AtomicUsize, Ordering::*};
use crate::units::CpuId;
use std::sync::atomic::AtomicU32 as Count;
use std::sync::{Arc, Mutex};
use std::vec::Vec;

/// A handler, with the machine that it is called with.
pub(super) type Program = Arc<dyn Fn() + Send + Sync>;

/// The interrupts of a machine's CPUs, and their helpers.
pub(super) struct InterruptLines {
    /// 1 while the CPU has an interrupt to handle. The swap to 0 pairs with the sender's swap to 1.
    pending: Vec<AtomicUsize<TestCpu>>,
    /// The handler, with the machine, which does not move meanwhile.
    handler: Mutex<Option<Program>>,
    /// How often the helper of the CPU is expedited. No part of what models model.
    #[cfg_attr(loom, allow(dead_code))]
    expedited: Vec<Count>,
}

impl InterruptLines {
    /// No CPU has an interrupt to handle, and there is no handler.
    pub(super) fn new(nr_cpus: u32) -> Self {
        let pending = (0..nr_cpus).map(|_| AtomicUsize::new(0)).collect();
        let expedited = (0..nr_cpus).map(|_| Count::new(0)).collect();
        Self { pending, handler: Mutex::new(None), expedited }
    }

    pub(super) fn nr_cpus(&self) -> u32 {
        self.pending.len() as u32
    }

    /// Sets what handles interrupts from now on, or removes it. False where another one is set.
    pub(super) fn set_handler(&self, handler: Option<Program>) -> bool {
        let mut slot = self.handler.lock().unwrap();
        let is_taken = slot.is_some() && handler.is_some();
        if !is_taken {
            *slot = handler;
        }
        !is_taken
    }

    /// Interrupts a CPU, if there is one of that number.
    pub(super) fn raise(&self, cpu: CpuId) {
        if let Some(pending) = self.pending.get(cpu.index()) {
            pending.swap(1, AcqRel);
        }
    }

    /// Whether the CPU has an interrupt that it has not handled.
    pub(super) fn is_pending(&self, cpu: u32) -> bool {
        self.pending.get(cpu as usize).is_some_and(|pending| pending.load(Relaxed) != 0)
    }

    /// How often the helper of the CPU is expedited.
    #[cfg(not(loom))]
    pub(super) fn expedited(&self, cpu: CpuId) -> &Count {
        &self.expedited[cpu.index()]
    }

    /// Runs the handler if this CPU was interrupted.
    pub(super) fn handle(&self, cpu: u32) {
        if !self.is_pending(cpu) || self.pending[cpu as usize].swap(0, AcqRel) == 0 {
            return;
        }
        let handler = self.handler.lock().unwrap().clone();
        if let Some(handler) = handler {
            handler();
        }
    }
}
