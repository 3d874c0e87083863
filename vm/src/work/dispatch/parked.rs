//! The set of parked workers.

use crate::machine::Cpu;
use crate::sync::atomic::{AtomicU64, Ordering::*};
use crate::units::{CpuId, CpuMask, MAX_CPUS};

/// A bit for each CPU. A removal acquires from the insertion before it, and an insertion from the removal.
pub(super) struct Parked<C: Cpu>([AtomicU64<C>; MAX_CPUS / 64]);

impl<C: Cpu> Parked<C> {
    pub(super) const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; MAX_CPUS / 64])
    }

    pub(super) fn insert(&self, cpu: CpuId) {
        self.0[cpu.index() / 64].fetch_or(1 << (cpu.0 % 64), AcqRel);
    }

    /// Takes a CPU out. False if it is not in the set.
    pub(super) fn remove(&self, cpu: CpuId) -> bool {
        let (word, bit) = (&self.0[cpu.index() / 64], 1 << (cpu.0 % 64));
        word.load(Relaxed) & bit != 0 && word.fetch_and(!bit, AcqRel) & bit != 0
    }

    /// The CPUs of the set below `nr_cpus`, from the one behind `me` on, wrapping; may be stale.
    pub(super) fn iter_from(&self, me: CpuId, nr_cpus: u32) -> impl Iterator<Item = CpuId> {
        let words = nr_cpus.div_ceil(64) as usize;
        let load = |at: usize| if at < words { self.0[at].load(Relaxed) } else { 0 };
        let set = CpuMask::from_words(core::array::from_fn(load));
        let end = if set.is_empty() { 0 } else { nr_cpus };
        (me.0 + 1..end).chain(0..end.min(me.0 + 1)).map(CpuId).filter(move |&cpu| set.contains(cpu))
    }
}
