//! Words in carved memory, for the stacks of a pool: how many there are is known when the pool is made.

use crate::machine::Cpu;
use crate::sync::{CacheAligned, Carve, Plain, carve_slice, fill};
use core::ptr::NonNull;
use core::slice;

/// Words on two cache lines of their own.
const WORDS: usize = 16;
type Lines<C> = CacheAligned<[Plain<u64, C>; WORDS]>;
const _: () = assert!(size_of::<CacheAligned<[u64; WORDS]>>() == WORDS * size_of::<u64>());

/// Words on cache lines of their own. No lifetime is in the type: a pool that has one in a cell that other
/// CPUs reach could not be used for a shorter time than its memory's.
pub(super) struct CarvedWords<C: Cpu>(NonNull<[Plain<u64, C>]>);

// SAFETY: it has its words alone, as `carve` says.
unsafe impl<C: Cpu> Send for CarvedWords<C> {}

impl<C: Cpu> CarvedWords<C> {
    /// At least `len` words, which are 0. `None` where memory does not suffice.
    ///
    /// # Safety
    /// They are not used after `'m`.
    pub unsafe fn carve<'m>(from: &mut impl Carve<'m>, len: usize) -> Option<Self>
    where
        C: 'm,
    {
        let lines: &'m mut [Lines<C>] =
            fill(carve_slice(from, len.div_ceil(WORDS))?, |_| CacheAligned([const { Plain::new(0) }; WORDS]));
        let (first, len) = (NonNull::from(&mut *lines).cast(), lines.len() * WORDS);
        // The lines are words without anything in between, as their size says.
        Some(Self(NonNull::slice_from_raw_parts(first, len)))
    }

    /// No words.
    pub const fn none() -> Self {
        Self(NonNull::slice_from_raw_parts(NonNull::dangling(), 0))
    }
}

impl<C: Cpu> AsRef<[Plain<u64, C>]> for CarvedWords<C> {
    #[inline(always)]
    fn as_ref(&self) -> &[Plain<u64, C>] {
        // SAFETY: the words were carved, exclusively, for a time that has not ended, says the caller of
        // `carve`; this value has them alone.
        unsafe { slice::from_raw_parts(self.0.as_ptr().cast_const().cast(), self.0.len()) }
    }
}

impl<C: Cpu> AsMut<[Plain<u64, C>]> for CarvedWords<C> {
    #[inline(always)]
    fn as_mut(&mut self) -> &mut [Plain<u64, C>] {
        // SAFETY: as above, and this borrows the value mutably.
        unsafe { slice::from_raw_parts_mut(self.0.as_ptr().cast(), self.0.len()) }
    }
}
