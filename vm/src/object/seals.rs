//! Seals: what may not happen to an object any more.

use super::shared::Object;
use crate::machine::Cpu;
use crate::sync::atomic::Ordering::*;
use bitflags::bitflags;

bitflags! {
    /// What may not happen to an object any more: each stays for as long as it lives. (Linux: `F_SEAL_*` of
    /// `fcntl`.)
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct Seals: u32 {
        /// No seal is added.
        const SEAL = 1;
        /// It does not become shorter.
        const SHRINK = 2;
        /// It does not become longer.
        const GROW = 4;
        /// Nothing is stored to it, by whatever way.
        const WRITE = 8;
        /// Nothing is stored to it but by mappings that are there already.
        const FUTURE_WRITE = 16;
    }
}

impl Seals {
    /// Those that keep calls, and mappings to come, from storing.
    pub(crate) const NO_WRITE: Self = Self::WRITE.union(Self::FUTURE_WRITE);
}

/// Added to an object's word for each call that looks whether it may be sealed against writing. Until all
/// have looked it is sealed so, but does not say it.
const LOOKING: u32 = 1 << 16;
const SEALS: u32 = LOOKING - 1;

impl<C: Cpu> Object<C> {
    /// Its seals; others may be added at once.
    pub(crate) fn seals(&self) -> Seals {
        // Acquire: pairs with `change_seals`.
        Seals::from_bits_retain(self.seals.load(Acquire) & SEALS)
    }

    /// Whether it has any of these seals, or is about to have it.
    pub(crate) fn is_sealed(&self, seals: Seals) -> bool {
        // Acquire: as in `seals`.
        let word = self.seals.load(Acquire);
        let looking = if word >= LOOKING { Seals::WRITE } else { Seals::empty() };
        (Seals::from_bits_retain(word & SEALS) | looking).intersects(seals)
    }

    /// Begins to look whether it may be sealed against writing: mappings to come are refused until
    /// [`end_look`](Self::end_look). `false`, and nothing has begun, under [`Seals::SEAL`], and where as many
    /// calls look as can be counted.
    pub(crate) fn begin_look(&self) -> bool {
        self.change_seals(|word| word.checked_add(LOOKING).filter(|word| word & Seals::SEAL.bits() == 0))
    }

    /// Ends what [`begin_look`](Self::begin_look) has begun.
    pub(crate) fn end_look(&self) {
        self.change_seals(|word| word.checked_sub(LOOKING));
    }

    /// Adds seals. `false` under [`Seals::SEAL`].
    pub(crate) fn add_seals(&self, seals: Seals) -> bool {
        self.change_seals(|word| (word & Seals::SEAL.bits() == 0).then_some(word | seals.bits()))
    }

    fn change_seals(&self, change: impl FnOnce(u32) -> Option<u32>) -> bool {
        // A mapping that is counted later sees them.
        let _counts = self.counts.lock();
        let changed = change(self.seals.load(Relaxed));
        // Release: pairs with `seals` and `is_sealed`.
        changed.inspect(|&word| self.seals.store(word, Release)).is_some()
    }
}
