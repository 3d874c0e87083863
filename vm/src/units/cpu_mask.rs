//! Sets of CPUs, as wide as a platform needs them.
//!
//! A platform says once how many CPUs its machines may have: [`Cpu::CpuWords`](crate::machine::Cpu::CpuWords)
//! is `[u64; 1]` for 64 CPUs, `[u64; 64]` for 4 096. Sets that the library keeps are of that width, and lie
//! where they are used. A function that only reads a set borrows it: `&CpuMask` is a reference to words of
//! any number, as `&str` is to bytes.

use super::CpuId;
use core::fmt;

/// The most CPUs for which there are [`CpuWords`]: one word has a bit for each of their words.
pub const MAX_CPUS: usize = 64 * 64;

/// The words of a set of CPUs, one bit for each CPU, lowest first: `[u64; N]`, with `N` from 1 to 64.
///
/// ```compile_fail,E0080
/// use interleaf::units::{CpuMask, CpuWords};
/// assert!(<[u64; 65]>::MAX_CPUS > 0);
/// ```
pub trait CpuWords: AsRef<[u64]> + AsMut<[u64]> + Clone + Send + Sync + sealed::Sealed + 'static {
    /// Number of CPUs that the words can name.
    const MAX_CPUS: u32;
    /// As many values of another type.
    type Of<T: Send + Sync>: AsRef<[T]> + Send + Sync;

    /// One value for each word.
    fn from_fn<T: Send + Sync>(make: impl FnMut(usize) -> T) -> Self::Of<T>;
    /// The set, whatever its width.
    fn as_mask(mask: &CpuMask<Self>) -> &CpuMask
    where
        Self: Sized;
    /// As [`as_mask`](Self::as_mask), to be changed.
    fn as_mask_mut(mask: &mut CpuMask<Self>) -> &mut CpuMask
    where
        Self: Sized;
    /// No CPU.
    fn empty() -> CpuMask<Self>
    where
        Self: Sized;
}

mod sealed {
    pub trait Sealed {}
    impl<const N: usize> Sealed for [u64; N] {}
}

impl<const N: usize> CpuWords for [u64; N] {
    const MAX_CPUS: u32 = {
        assert!(N >= 1 && N <= MAX_CPUS / 64, "a platform has words for 64 to 4096 CPUs");
        64 * N as u32
    };
    type Of<T: Send + Sync> = [T; N];

    fn from_fn<T: Send + Sync>(make: impl FnMut(usize) -> T) -> [T; N] {
        core::array::from_fn(make)
    }
    fn as_mask(mask: &CpuMask<Self>) -> &CpuMask {
        mask
    }
    fn as_mask_mut(mask: &mut CpuMask<Self>) -> &mut CpuMask {
        mask
    }
    fn empty() -> CpuMask<Self> {
        CpuMask { words: [0; N] }
    }
}

/// A set of CPUs: `CpuMask<[u64; N]>` is a value, `&CpuMask` a reference to one of any width.
///
/// ```
/// use interleaf::units::{CpuId, CpuMask};
///
/// fn print(cpus: &CpuMask) {
///     cpus.iter().for_each(|cpu| println!("{cpu:?}"));
/// }
/// let mut cpus = CpuMask::<[u64; 2]>::first(3);
/// cpus.insert(CpuId(127));
/// print(&cpus);
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct CpuMask<W: ?Sized = [u64]> {
    words: W,
}

impl<W: CpuWords> CpuMask<W> {
    /// No CPU.
    pub fn new() -> Self {
        W::empty()
    }
    /// The set with these words.
    pub const fn from_words(words: W) -> Self {
        Self { words }
    }
    /// The CPUs `0..n`, as many as the words can name.
    pub fn first(n: u32) -> Self {
        let mut mask = Self::new();
        (0..n.min(W::MAX_CPUS)).for_each(|cpu| mask.insert(CpuId(cpu)));
        mask
    }
    /// The set, whatever its width.
    pub fn as_mask(&self) -> &CpuMask {
        W::as_mask(self)
    }
    /// As [`as_mask`](Self::as_mask), to be changed.
    pub fn as_mask_mut(&mut self) -> &mut CpuMask {
        W::as_mask_mut(self)
    }
}

impl<W: CpuWords> Default for CpuMask<W> {
    fn default() -> Self {
        Self::new()
    }
}

impl<W: ?Sized + AsMut<[u64]>> CpuMask<W> {
    /// Adds a CPU; one that the words cannot name is ignored.
    pub fn insert(&mut self, cpu: CpuId) {
        if let Some(word) = self.words.as_mut().get_mut(cpu.index() / 64) {
            *word |= 1 << (cpu.0 % 64);
        }
    }
    /// Removes a CPU.
    pub fn remove(&mut self, cpu: CpuId) {
        if let Some(word) = self.words.as_mut().get_mut(cpu.index() / 64) {
            *word &= !(1 << (cpu.0 % 64));
        }
    }
    /// The words, lowest CPUs first.
    pub fn words_mut(&mut self) -> &mut [u64] {
        self.words.as_mut()
    }
}

impl<W: ?Sized + AsRef<[u64]>> CpuMask<W> {
    /// The words, lowest CPUs first. What lies beyond them is in no set.
    pub fn words(&self) -> &[u64] {
        self.words.as_ref()
    }
    /// Whether the CPU is in the set.
    pub fn contains(&self, cpu: CpuId) -> bool {
        self.words().get(cpu.index() / 64).is_some_and(|word| word >> (cpu.0 % 64) & 1 == 1)
    }
    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.words().iter().all(|&word| word == 0)
    }
    /// Number of CPUs in the set.
    pub fn count(&self) -> u32 {
        self.words().iter().map(|word| word.count_ones()).sum()
    }
    /// The CPUs in ascending order.
    pub fn iter(&self) -> CpuMaskIter<'_> {
        CpuMaskIter { words: self.words(), at: 0, rest: self.words().first().copied().unwrap_or(0) }
    }
}

/// Iterator over the CPUs of a [`CpuMask`].
#[derive(Clone, Debug)]
pub struct CpuMaskIter<'a> {
    words: &'a [u64],
    /// The word whose CPUs are listed.
    at: usize,
    /// Those of its bits that are still to come.
    rest: u64,
}

impl Iterator for CpuMaskIter<'_> {
    type Item = CpuId;

    fn next(&mut self) -> Option<CpuId> {
        while self.rest == 0 {
            self.rest = *self.words.get(self.at + 1)?;
            self.at += 1;
        }
        let bit = self.rest.trailing_zeros();
        self.rest &= self.rest - 1;
        Some(CpuId(self.at as u32 * 64 + bit))
    }
}

/// The bits that are set, lowest first.
#[inline(always)]
pub(crate) fn bits(mut word: u64) -> impl Iterator<Item = u32> {
    core::iter::from_fn(move || {
        let bit = word.trailing_zeros();
        word &= word.wrapping_sub(1);
        (bit < 64).then_some(bit)
    })
}

impl<W: ?Sized + AsRef<[u64]>> fmt::Debug for CpuMask<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(all(test, not(loom)))]
#[path = "tests/cpu_mask.rs"]
mod tests;
