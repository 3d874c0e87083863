//! Caches of the last hit: a lookup with the same result as this CPU's last one reads a few words instead of
//! a path.
//!
//! A program's faults come in runs: a run stays in one mapping, and 512 neighbours share a table page. So
//! each CPU keeps the result of its last lookup ([`LastHit`]), stamped with the *version* of the structure it
//! was found in ([`HitSource`]): a word that the writer raises after it has unlinked something and before it
//! retires it.
//!
//! ```text
//!   lookup (read section)                    writer
//!
//!   v = version             Acquire          unlink                        Release
//!   cached at v? ─── yes: take it            version = version + 1         Release
//!      │ no                                  retire the unlinked objects
//!   look up; cache it with v
//! ```
//!
//! Why the cached object is still in memory when the version is unchanged: it was found after version `v` was
//! read, so it was linked when the unlinkings up to `v` were done; the one that unlinked it raised the
//! version further before the object was retired. If a grace period had ended before this read section could
//! hold it back, everything before the retirement would be visible in the section, the raised version too.
//!
//! The object may have been unlinked a moment ago, as after any lookup under RCU. The words are one CPU's, so
//! no other CPU writes them between two reads; the token for them is [`CpuRef`], whose thread stays on its
//! CPU.

use super::CpuRef;
use super::atomic::{AtomicU64, Ordering::*};
use crate::machine::Cpu;
use core::fmt;

/// A structure whose hits are cached: a number that no other structure has, and its version.
pub struct HitSource<C: Cpu> {
    id: u64,
    version: AtomicU64<C>,
}

/// The version of a [`HitSource`] when a lookup began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HitVersion(u64);

/// The last hit of one CPU, among all structures that it looks into: `WORDS` words. It lies in a slot of
/// per-CPU data.
pub struct LastHit<C: Cpu, const WORDS: usize> {
    /// [`HitSource::id`]; 0: nothing is cached.
    source: AtomicU64<C>,
    version: AtomicU64<C>,
    words: [AtomicU64<C>; WORDS],
}

impl<C: Cpu> HitSource<C> {
    /// A structure that has unlinked nothing yet.
    pub fn new() -> Self {
        static NEXT: core::sync::atomic::AtomicU64 = core::sync::atomic::AtomicU64::new(1);
        // Relaxed: only uniqueness matters.
        Self { id: NEXT.fetch_add(1, core::sync::atomic::Ordering::Relaxed), version: AtomicU64::new(0) }
    }

    /// Invalidates every cached hit. One writer at a time calls this after it has unlinked something and
    /// before it retires it.
    pub fn invalidate(&self) {
        // Release: a lookup that reads the new version finds nothing that was unlinked before it.
        self.version.store(self.version.load(Relaxed) + 1, Release);
    }

    /// The version to look up under, read before the lookup; pairs with [`invalidate`](Self::invalidate).
    #[inline(always)]
    pub fn version(&self) -> HitVersion {
        HitVersion(self.version.load(Acquire))
    }
}

impl<C: Cpu, const WORDS: usize> LastHit<C, WORDS> {
    /// Nothing is cached.
    pub const fn new() -> Self {
        Self {
            source: AtomicU64::new(0),
            version: AtomicU64::new(0),
            words: [const { AtomicU64::new(0) }; WORDS],
        }
    }

    /// The cached words, if they are a hit in `source` and `version`, just read, is still that of the hit.
    #[inline(always)]
    pub fn get<S>(
        mine: CpuRef<'_, S, C>,
        part: fn(&S) -> &Self,
        source: &HitSource<C>,
        version: HitVersion,
    ) -> Option<[u64; WORDS]> {
        let hit = part(&mine);
        let valid = hit.source.load(Relaxed) == source.id && hit.version.load(Relaxed) == version.0;
        valid.then(|| core::array::from_fn(|word| hit.words[word].load(Relaxed)))
    }

    /// Caches a hit.
    ///
    /// # Safety
    /// The words are the result of a lookup in the structure of `source`, which began after `version` was
    /// read and in a read section that has not ended. The objects that they name are retired only after a
    /// later [`invalidate`](HitSource::invalidate).
    #[inline(always)]
    pub unsafe fn set<S>(
        mine: CpuRef<'_, S, C>,
        part: fn(&S) -> &Self,
        source: &HitSource<C>,
        version: HitVersion,
        words: [u64; WORDS],
    ) {
        let hit = part(&mine);
        hit.source.store(source.id, Relaxed);
        hit.version.store(version.0, Relaxed);
        for (word, value) in hit.words.iter().zip(words) {
            word.store(value, Relaxed);
        }
    }
}

impl<C: Cpu> Default for HitSource<C> {
    fn default() -> Self {
        Self::new()
    }
}

impl<C: Cpu, const WORDS: usize> Default for LastHit<C, WORDS> {
    fn default() -> Self {
        Self::new()
    }
}

impl<C: Cpu> fmt::Debug for HitSource<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "structure {} at version {:?}", self.id, self.version)
    }
}

impl<C: Cpu, const WORDS: usize> fmt::Debug for LastHit<C, WORDS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "last hit in structure {:?} at version {:?}", self.source, self.version)
    }
}
