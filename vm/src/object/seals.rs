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

impl<C: Cpu> Object<C> {
    /// Its seals; others may be added at once.
    pub(crate) fn seals(&self) -> Seals {
        // Acquire: pairs with `change_seals`.
        Seals::from_bits_retain(self.seals.load(Acquire))
    }

    /// Whether it has any of these seals.
    pub(crate) fn is_sealed(&self, seals: Seals) -> bool {
        self.seals().intersects(seals)
    }

    /// Adds seals, and takes some away that this caller has added. Returns those before.
    pub(crate) fn change_seals(&self, added: Seals, taken: Seals) -> Seals {
        // A mapping that is counted later sees them.
        let _counts = self.counts.lock();
        let before = Seals::from_bits_retain(self.seals.load(Relaxed));
        // Release: pairs with `seals`.
        self.seals.store(((before - taken) | added).bits(), Release);
        before
    }
}
