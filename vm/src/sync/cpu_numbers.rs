//! Numbers that are given once, without a line that two CPUs write.

#![forbid(unsafe_code)]

use super::atomic::{AtomicU64, Ordering::*};
use super::{Carve, PerCpu};
use crate::machine::Cpu;
use core::fmt;

/// Numbers of which no two are the same. Each CPU counts its own: CPU `c` of `n` gives `c + 1`, `c + 1 + n`,
/// `c + 1 + 2n` and so on. With 4096 CPUs each has 2^36 of them below 2^48.
pub struct CpuNumbers<'m, C: Cpu> {
    /// How many numbers each CPU has given. Relaxed: only uniqueness matters.
    given: PerCpu<'m, AtomicU64<C>, C>,
}

impl<'m, C: Cpu> CpuNumbers<'m, C> {
    /// For `nr_cpus` CPUs. `None` where memory does not suffice.
    pub fn carve(from: &mut impl Carve<'m>, nr_cpus: u32) -> Option<Self> {
        Some(Self { given: PerCpu::carve(from, nr_cpus, |_| AtomicU64::new(0))? })
    }

    /// A number that no other call returns; not 0.
    ///
    /// # Panics
    /// If the CPU is none of those that it was made for.
    #[track_caller]
    pub fn next(&self) -> u64 {
        let own = self.given.get_cpu();
        let (nr_cpus, cpu) = (u64::from(self.given.nr_cpus()), u64::from(C::id().0));
        let first = if mutant!("numbers.cpu-left-out") { 0 } else { cpu };
        // An update, not a load and a store: a handler may take one in between. The line is this CPU's own.
        own.fetch_add(1, Relaxed) * nr_cpus + first + 1
    }

    /// The addresses of all CPUs' counts, for observers.
    pub fn extent(&self) -> core::ops::Range<usize> {
        self.given.extent()
    }
}

impl<C: Cpu> fmt::Debug for CpuNumbers<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CpuNumbers")
    }
}

#[cfg(all(test, not(loom)))]
#[path = "tests/cpu_numbers.rs"]
mod tests;
