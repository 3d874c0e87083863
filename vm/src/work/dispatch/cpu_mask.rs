//! A set of CPUs that several CPUs change.

use crate::machine::Cpu;
use crate::sync::atomic::{AtomicU64, Ordering::*};
use crate::units::{CpuId, MAX_CPUS};

/// A bit for each CPU. A removal acquires from the insertion before it, and an insertion from the removal.
pub(super) struct AtomicCpuMask<C: Cpu> {
    words: [AtomicU64<C>; MAX_CPUS / 64],
}

impl<C: Cpu> AtomicCpuMask<C> {
    pub(super) const fn new() -> Self {
        Self { words: [const { AtomicU64::new(0) }; MAX_CPUS / 64] }
    }

    pub(super) fn insert(&self, cpu: CpuId) {
        self.words[cpu.index() / 64].fetch_or(1 << (cpu.0 % 64), AcqRel);
    }

    /// Takes a CPU out. False if it is not in the set.
    pub(super) fn remove(&self, cpu: CpuId) -> bool {
        let (word, bit) = (&self.words[cpu.index() / 64], 1 << (cpu.0 % 64));
        word.load(Relaxed) & bit != 0 && word.fetch_and(!bit, AcqRel) & bit != 0
    }

    /// Number of CPUs in the set; may be stale.
    pub(super) fn count_racy(&self) -> u32 {
        self.words.iter().map(|word| word.load(Relaxed).count_ones()).sum()
    }

    /// The CPUs below `nr_cpus`, starting behind `me` and wrapping; may be stale.
    pub(super) fn iter_from(&self, me: CpuId, nr_cpus: u32) -> impl Iterator<Item = CpuId> {
        let (words, start) = (nr_cpus.div_ceil(64), me.0.min(nr_cpus.saturating_sub(1)));
        // The first word twice: at the end, its CPUs up to `me`.
        (0..=words).filter(move |_| words > 0).flat_map(move |step| {
            let (word, low) = ((start / 64 + step) % words, u64::MAX >> (63 - start % 64));
            let part = match step {
                0 => !low,
                _ if step == words => low,
                _ => u64::MAX,
            };
            bits(self.words[word as usize].load(Relaxed) & part).map(move |bit| CpuId(word * 64 + bit))
        })
    }
}

/// The bits that are set, lowest first.
pub(super) fn bits(mut word: u64) -> impl Iterator<Item = u32> {
    core::iter::from_fn(move || {
        let bit = word.trailing_zeros();
        word &= word.wrapping_sub(1);
        (bit < 64).then_some(bit)
    })
}
