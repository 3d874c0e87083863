//! Sets of CPUs that the CPUs change themselves: the CPUs that run a space, the workers that are parked.
//!
//! A set has as many words as the platform's machines may need. So that a reader does not read 64 words
//! where one is in use, a *summary* has a bit for each word in which there was a CPU before:
//!
//! ```text
//!   summary   1 . . . 1 . .          a set bit stays set
//!             |       |
//!   words     5 0 0 0 0 0 0          read are words 0 and 4
//! ```
//!
//! A set of one word has no summary: the compiler sees the number.
//!
//! # Order
//!
//! A CPU that is inserted has set both bits when [`insert`](AtomicCpuMask::insert) returns, or has seen the
//! bit of the summary as another CPU set it. With a full fence on either side, a CPU that inserts itself and
//! then reads a word, and another that writes the word and then reads the set, cannot both miss the other. A
//! bit of the summary is never cleared: the word may be filled anew at the moment when it is found empty.

use super::atomic::{AtomicU64, Ordering::*};
use crate::machine::Cpu;
use crate::units::{CpuId, CpuMask, CpuWords, bits};
use core::fmt;

/// A set of CPUs; see the module.
pub struct AtomicCpuMask<C: Cpu, W: CpuWords = <C as Cpu>::CpuWords> {
    summary: AtomicU64<C>,
    words: W::Of<AtomicU64<C>>,
}

/// A CPU's word, and its bit there.
fn place(cpu: CpuId) -> (usize, u64) {
    (cpu.index() / 64, 1 << (cpu.0 % 64))
}

impl<C: Cpu, W: CpuWords> AtomicCpuMask<C, W> {
    /// No CPU.
    pub fn new() -> Self {
        Self { summary: AtomicU64::new(0), words: W::from_fn(|_| AtomicU64::new(0)) }
    }

    fn words(&self) -> &[AtomicU64<C>] {
        self.words.as_ref()
    }

    /// The words in which there may be a CPU, a bit for each.
    #[inline(always)]
    fn in_use(&self) -> u64 {
        if W::MAX_CPUS == 64 { 1 } else { self.summary.load(Acquire) }
    }

    /// Makes the set that of `cpus`, as far as the words can name them. Relaxed, and a word at a time.
    pub fn assign(&self, cpus: &CpuMask) {
        let mut summary = 0;
        for (at, word) in self.words().iter().enumerate() {
            let to = cpus.words().get(at).copied().unwrap_or(0);
            summary |= u64::from(to != 0) << at;
            word.store(to, Relaxed);
        }
        self.summary.store(summary, Relaxed);
    }

    /// Adds a CPU. Acquires from its removal, and releases.
    ///
    /// # Panics
    /// If the words cannot name the CPU.
    pub fn insert(&self, cpu: CpuId) {
        let (at, bit) = place(cpu);
        self.words()[at].fetch_or(bit, AcqRel);
        if self.in_use() >> at & 1 == 0 && !mutant!("cpu-mask.summary-not-set") {
            self.summary.fetch_or(1 << at, AcqRel);
        }
    }

    /// Removes a CPU; whether it was in the set. Acquires from its insertion, and releases.
    pub fn remove(&self, cpu: CpuId) -> bool {
        let (at, bit) = place(cpu);
        self.words().get(at).is_some_and(|word| word.fetch_and(!bit, AcqRel) & bit != 0)
    }

    /// Whether the CPU is in the set.
    #[inline]
    pub fn contains(&self, cpu: CpuId) -> bool {
        let (at, bit) = place(cpu);
        self.words().get(at).is_some_and(|word| word.load(Acquire) & bit != 0)
    }

    /// Whether there is a CPU but `cpu` in the set.
    #[inline]
    pub fn has_other_than(&self, cpu: CpuId) -> bool {
        let (own, bit) = place(cpu);
        bits(self.in_use()).any(|at| {
            let spared = if at as usize == own { bit } else { 0 };
            self.words()[at as usize].load(Acquire) & !spared != 0
        })
    }

    /// The CPUs in ascending order, from the one behind `cpu` on, wrapping. Each word is read once, when its
    /// first CPU is asked for.
    pub fn iter_after(&self, cpu: CpuId) -> impl Iterator<Item = CpuId> {
        let count = self.words().len();
        let last = if mutant!("cpu-mask.last-word-left-out") { count.max(2) - 1 } else { count };
        let first = (cpu.index() % (count * 64) + 1) % (count * 64);
        let (in_use, below) = (self.in_use(), (1u64 << (first % 64)) - 1);
        // The first word has the first CPUs, and the last ones: those that were below.
        let mut kept = 0;
        (0..=count).flat_map(move |step| {
            let at = (first / 64 + step) % count;
            let mut word = kept;
            if step < count {
                let is_used = in_use >> at & 1 == 1 && at < last;
                word = if is_used { self.words()[at].load(Acquire) } else { 0 };
            }
            if step == 0 {
                (kept, word) = (word & below, word & !below);
            }
            bits(word).map(move |bit| CpuId(at as u32 * 64 + bit))
        })
    }

    /// Whether no CPU is in the set. Acquires from all removals.
    pub fn is_empty(&self) -> bool {
        self.words().iter().all(|word| word.load(Acquire) == 0)
    }

    /// The set at some moment, or at several: a word at a time.
    pub fn snapshot_racy(&self) -> CpuMask<W> {
        let mut mask = CpuMask::new();
        mask.words_mut().iter_mut().zip(self.words()).for_each(|(to, word)| *to = word.load(Relaxed));
        mask
    }
}

impl<C: Cpu, W: CpuWords> fmt::Debug for AtomicCpuMask<C, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.snapshot_racy().fmt(f)
    }
}

#[cfg(all(test, loom))]
#[path = "tests/loom_cpu_mask.rs"]
mod loom_tests;
#[cfg(all(test, not(loom)))]
#[path = "tests/cpu_mask.rs"]
mod tests;
