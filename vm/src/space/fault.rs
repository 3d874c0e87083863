//! Page faults: what comes in, what comes out, and the two ways through.
//!
//! [`AddressSpace::fault`] speculates first: [`super::body`] runs with the proof `Speculated`, which takes no
//! lock that protects other memory. Where that gives up, with a reason that is counted, the same body runs
//! with the proof `Locked`, which shares the space's lock; the frame that speculation had prepared is carried
//! over. Only the locked path may say that a fault is an error.

use super::body::{Ended, Stop, attempt};
use super::carried::Carried;
use super::counters::Counter;
use super::error::FaultError;
use super::proof::{Locked, Speculated};
use super::{AddressSpace, Vm};
use crate::machine::{Cpu, Machine};
use crate::units::{Access, VirtAddr};

/// A page fault, as the hardware reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The address that could not be translated.
    pub addr: VirtAddr,
    /// What was wanted there.
    pub access: Access,
}

/// How a fault was resolved. The access is to be tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Without the space's lock.
    Speculated,
    /// Under the space's lock, because the space does not speculate.
    Locked,
    /// Under the space's lock, after speculation gave up.
    FellBack(Fallback),
}

/// Why speculation gave up. Each has its counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fallback {
    /// The mapping was replaced meanwhile, or is busy.
    VmaChanged,
    /// Nothing is mapped there: perhaps an error, which only the locked path may report.
    VmaMissing,
    /// The kind of mapping is not handled without the lock.
    VmaNotSupported,
    /// The mapping does not allow the access: perhaps an error, which only the locked path may report.
    VmaAccess,
    /// A table on the way was cut out meanwhile.
    PmdChanged,
    /// The entry holds a marker: somebody is at work on it.
    EntryBusy,
    /// No frame to be had without waiting.
    NoMemory,
}

impl Fallback {
    /// All reasons.
    pub const ALL: [Fallback; 7] = [
        Fallback::VmaChanged,
        Fallback::VmaMissing,
        Fallback::VmaNotSupported,
        Fallback::VmaAccess,
        Fallback::PmdChanged,
        Fallback::EntryBusy,
        Fallback::NoMemory,
    ];

    /// The counter of this reason.
    pub const fn counter(self) -> Counter {
        match self {
            Fallback::VmaChanged => Counter::SpfVmaChanged,
            Fallback::VmaMissing => Counter::SpfVmaMissing,
            Fallback::VmaNotSupported => Counter::SpfVmaNotSupported,
            Fallback::VmaAccess => Counter::SpfVmaAccess,
            Fallback::PmdChanged => Counter::SpfPmdChanged,
            Fallback::EntryBusy => Counter::SpfEntryBusy,
            Fallback::NoMemory => Counter::SpfNoMemory,
        }
    }
}

/// Which way faults of a space go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Path {
    /// Speculate, and take the lock where that gives up.
    #[default]
    Speculative,
    /// Always share the space's lock.
    Locked,
}

impl<'v, M: Machine> AddressSpace<'v, M> {
    /// Resolves a page fault.
    ///
    /// Called with no lock held and outside any RCU read section; may sleep. When it returns, the access is
    /// to be tried again: it may fault again where another thread changed the mapping meanwhile.
    ///
    /// # Errors
    /// The signal that the faulting thread deserves.
    pub fn fault(&self, fault: Fault) -> Result<Outcome, FaultError> {
        let vm = self.vm;
        let mut carried = Carried::new(vm);
        if fault.access == Access::Write {
            carried.prepare_early();
        }
        let (fallback, stopped) = match self.path {
            Path::Locked => {
                vm.count(Counter::PgFault);
                match self.attempt_locked(fault, &mut carried) {
                    Ok(_) => return Ok(Outcome::Locked),
                    Err(stop) => (None, Some(stop)),
                }
            }
            Path::Speculative => match self.speculate(fault, &mut carried) {
                None => {
                    if mutant!("fault.not-counted") {
                        vm.count(Counter::SpeculativePgFault);
                    } else {
                        vm.counters.count_each([Counter::PgFault, Counter::SpeculativePgFault]);
                    }
                    return Ok(Outcome::Speculated);
                }
                Some(reason) => {
                    vm.count(Counter::PgFault);
                    (Some(reason), None)
                }
            },
        };
        let result = self.fault_locked(fault, &mut carried, stopped);
        if result.is_err() {
            vm.count(Counter::PgFaultError);
        }
        result.map(|_| fallback.map_or(Outcome::Locked, Outcome::FellBack))
    }

    /// Makes a page present without being asked by the hardware: populating. No access follows that would
    /// fault again, so an attempt that was overtaken (by a read fault that shows the zero page, say) is made
    /// again.
    pub(super) fn make_present(&self, fault: Fault) -> Result<(), FaultError> {
        let mut carried = Carried::new(self.vm);
        while self.fault_locked(fault, &mut carried, None)? == Ended::Overtaken {}
        Ok(())
    }

    /// A writer publishes the new mapping a store or two after it marks the old one, and the frame is in hand
    /// already.
    #[cold]
    #[inline(never)]
    fn speculate_again(&self, fault: Fault, carried: &mut Carried<'v, M>) -> Result<Ended, Stop> {
        M::Cpu::relax();
        attempt(self, fault, &Speculated, carried)
    }

    /// Tries without the lock; says why it gave up.
    #[inline]
    fn speculate(&self, fault: Fault, carried: &mut Carried<'v, M>) -> Option<Fallback> {
        let mut result = attempt(self, fault, &Speculated, carried);
        if matches!(result, Err(Stop::Changed)) {
            result = self.speculate_again(fault, carried);
        }
        let reason = match result {
            Ok(_) => return None,
            Err(stop) => stop.as_fallback(),
        };
        self.vm.gave_up(fault, reason);
        Some(reason)
    }

    /// Tries once under the space's lock, shared.
    #[inline(always)]
    fn attempt_locked(&self, fault: Fault, carried: &mut Carried<'v, M>) -> Result<Ended, Stop> {
        let guard = self.lock.read();
        attempt(self, fault, &Locked::new(&guard), carried)
    }

    /// Resolves the fault under the space's lock, shared, however often that takes; `stopped` is what ended
    /// the first attempt, if that was made. Not part of [`fault`](Self::fault), whose first attempts go
    /// without a call and without preparing for a second one.
    #[inline(never)]
    fn fault_locked(
        &self,
        fault: Fault,
        carried: &mut Carried<'v, M>,
        mut stopped: Option<Stop>,
    ) -> Result<Ended, FaultError> {
        loop {
            let stop = match stopped.take().map_or_else(|| self.attempt_locked(fault, carried), Err) {
                Ok(ended) => return Ok(ended),
                Err(stop) => stop,
            };
            match stop {
                Stop::NotMapped => return Err(FaultError::NotMapped),
                Stop::NotAllowed => return Err(FaultError::NotAllowed),
                Stop::NoMemory => carried.wait_for_memory().map_err(|()| FaultError::NoMemory)?,
                Stop::Changed | Stop::TableCut | Stop::EntryBusy => M::Cpu::relax(),
            }
        }
    }
}

impl<M: Machine> Vm<'_, M> {
    #[cold]
    fn gave_up(&self, fault: Fault, reason: Fallback) {
        self.count(reason.counter());
        self.machine.event(reason.counter().name(), fault.addr.0);
    }
}
