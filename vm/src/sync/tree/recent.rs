//! What a CPU found last: a lookup that goes where the last one went reads two words instead of a path.
//!
//! A program's faults come in runs, and a run stays in one mapping. So each CPU remembers the item that it
//! found last, with the index's *version*: a word that the writer raises after each replacement is published
//! and before what went is retired.
//!
//! ```text
//!   lookup (read section)                    replacement
//!
//!   v = version             Acquire          unlink by one store           Release
//!   remembered at v? ── yes: that item       version = version + 1         Release
//!      │ no                                  retire what went
//!   find; remember it with v
//! ```
//!
//! Why the remembered item is still in memory when the version is unchanged: it was found after version `v`
//! was read, so it was linked when the replacements up to `v` were; the one that unlinked it raised the
//! version further before it retired the item. If a grace period had ended before this read section could
//! hold it back, everything before the retirement would be seen in it, the raised version too.
//!
//! The item may have been unlinked a moment ago, as with any lookup. It is remembered by CPU, so nobody else
//! writes the words; the token for them is [`Mine`], whose thread stays on its CPU.

use super::Span;
use super::owned::{RangeIndex, Stored};
use crate::machine::Cpu;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};
use crate::sync::{CpuRef, ReadGuard};
use crate::units::Vpn;
use core::fmt;

/// What one CPU found last, in one index of all that it looks into. It lies in a slot of per-CPU data.
pub struct Recent<C: Cpu> {
    /// The identity of the index; 0: none.
    index: AtomicU64<C>,
    version: AtomicU64<C>,
    item: AtomicUsize<C>,
}

/// A number for an index that no other index has: nothing that is remembered of one is taken for another's.
pub(super) fn next_identity() -> u64 {
    static NEXT: core::sync::atomic::AtomicU64 = core::sync::atomic::AtomicU64::new(1);
    // Relaxed: the number only has to be unlike all others.
    NEXT.fetch_add(1, core::sync::atomic::Ordering::Relaxed)
}

impl<C: Cpu> Recent<C> {
    /// Nothing yet.
    pub const fn new() -> Self {
        Self { index: AtomicU64::new(0), version: AtomicU64::new(0), item: AtomicUsize::new(0) }
    }
}

impl<T: Span, C: Cpu> RangeIndex<T, C> {
    /// As [`find`](Self::find), by way of what this CPU found last. `part` says where in the CPU's slot that
    /// is remembered.
    #[inline(always)]
    #[track_caller]
    pub fn find_again<'g, S>(
        &self,
        section: &'g ReadGuard<'_, C>,
        mine: CpuRef<'_, S, C>,
        part: fn(&S) -> &Recent<C>,
        vpn: Vpn,
    ) -> Option<&'g T> {
        let recent = part(&mine);
        let version = self.version.load(Acquire);
        if recent.index.load(Relaxed) == self.identity && recent.version.load(Relaxed) == version {
            let item = core::ptr::with_exposed_provenance::<Stored<T>>(recent.item.load(Relaxed));
            // SAFETY: only this function writes the words, on this CPU, whose slot it is; so they are from
            // one lookup, in the index of this identity, which no other index has. As the module says, the
            // item is in memory until the read section ends.
            let item = unsafe { &*item };
            if item.span().contains(vpn) {
                return Some(item.value());
            }
        }
        let found = self.tree().find(section, vpn)?;
        recent.index.store(self.identity, Relaxed);
        recent.version.store(version, Relaxed);
        recent.item.store((&raw const *found).expose_provenance(), Relaxed);
        Some(found.value())
    }
}

impl<C: Cpu> Default for Recent<C> {
    fn default() -> Self {
        Self::new()
    }
}

impl<C: Cpu> fmt::Debug for Recent<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "found last in index {:?} at version {:?}", self.index, self.version)
    }
}
