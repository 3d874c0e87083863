//! Peak garbage and grace periods of the machines that a benchmark measures on.
//!
//! Each machine's library notes its peak when it ends ([`MeasuredVm`]), for the thread that it ends on; a
//! benchmark takes what was noted while it ran.

use super::timed_machine::TimedMachine;
use crate::error::Failure;
use crate::machine::soft::current;
use interleaf::machine::Machine;
use interleaf::space::Vm;
use interleaf::units::CpuId;
use serde::Serialize;
use std::cell::Cell;
use std::ops::Deref;

/// The garbage of one machine at its peak. The field names are the JSON's and stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PeakGarbage {
    /// Objects that waited for readers, at the peak of bytes.
    pub peak_objects: u64,
    /// The most bytes that waited at once: the sum of all CPUs' peaks.
    pub peak_bytes: u64,
    /// What `peak_bytes` may be: the sum of the CPUs' limits, what the call that made the peak retired on
    /// each, and a lot for each CPU, for what is retired where no thread may wait.
    pub limit_bytes: u64,
    /// The longest grace period that a caller waited for, in nanoseconds.
    pub longest_grace_ns: u64,
}

/// What a grace period may take: read sections of some hundred instructions, of threads that the host may
/// keep from running for some of its time slices.
pub const LONGEST_GRACE_NS: u64 = 1_000_000_000;

thread_local! {
    static NOTED: Cell<Option<PeakGarbage>> = const { Cell::new(None) };
}

impl PeakGarbage {
    /// Of `vm`, so far. The caller runs on one of its CPUs.
    fn of<M: Machine>(vm: &Vm<'_, M>) -> Self {
        let stats = vm.garbage_stats();
        let lots = vm.garbage_limits().lot_bytes() as u64 * u64::from(vm.machine().nr_cpus());
        Self {
            peak_objects: stats.peak_objects,
            peak_bytes: stats.peak_bytes,
            limit_bytes: stats.most_bytes + stats.peak_call_bytes + lots,
            longest_grace_ns: stats.longest_grace_ns,
        }
    }

    /// Of two machines, the one that came nearer to its limit, with the longer of their grace periods.
    pub fn or(self, other: Self) -> Self {
        let share = |of: &Self| of.peak_bytes as f64 / of.limit_bytes as f64;
        let nearer = if share(&other) > share(&self) { other } else { self };
        Self { longest_grace_ns: self.longest_grace_ns.max(other.longest_grace_ns), ..nearer }
    }

    /// # Errors
    /// That the peak exceeds the limit, or a grace period took longer than [`LONGEST_GRACE_NS`].
    pub fn check(&self, group: &str) -> Result<(), Failure> {
        let Self { peak_objects, peak_bytes, limit_bytes, longest_grace_ns } = self;
        if peak_bytes > limit_bytes {
            return Err(Failure::check(format!(
                "{group}: {peak_objects} objects, {peak_bytes} bytes, waited for readers at once; \
                 {limit_bytes} may"
            )));
        }
        if *longest_grace_ns > LONGEST_GRACE_NS {
            return Err(Failure::check(format!("{group}: a grace period took {longest_grace_ns} ns")));
        }
        Ok(())
    }
}

/// Notes the garbage of `vm`, for this thread. The caller runs on one of its CPUs.
pub fn note<M: Machine>(vm: &Vm<'_, M>) {
    let now = PeakGarbage::of(vm);
    NOTED.set(Some(NOTED.get().map_or(now, |noted| noted.or(now))));
}

/// Runs `run` and returns what was noted on this thread meanwhile: that of the machine which came nearest to
/// its limit.
pub fn noted_in<R>(run: impl FnOnce() -> R) -> (R, Option<PeakGarbage>) {
    NOTED.set(None);
    let result = run();
    (result, NOTED.take())
}

/// The library on a timed machine, whose garbage is noted when it ends.
pub struct MeasuredVm<'m>(pub Vm<'m, TimedMachine>);

impl<'m> Deref for MeasuredVm<'m> {
    type Target = Vm<'m, TimedMachine>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Drop for MeasuredVm<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let _entered = (current::binding() == current::NO_CPU).then(|| self.machine().enter(CpuId(0)));
        note(&self.0);
    }
}

#[cfg(test)]
#[path = "tests/garbage.rs"]
mod tests;
