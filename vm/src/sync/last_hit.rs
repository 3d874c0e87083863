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
//! no other CPU writes them between two reads; the token for them is the read section, whose thread stays on
//! its CPU.
//!
//! The subtle case: a handler of interrupts looks up, while the code that it interrupts is between two of the
//! words. Its read section is an inner one, as the interrupted code is in one too. So an inner section has no
//! last hit: as it begins it clears the numbers of the sources, so that [`get`](LastHit::get) returns nothing
//! in it, and [`set`](LastHit::set) does nothing in it. The version and the words do not change, then, and
//! the interrupted code goes on with those that it was about to read or write. That costs a lookup nothing,
//! and two stores where sections nest, which no operation that is frequent does.

use super::atomic::{AtomicU64, Ordering::*};
use super::{ReadGuard, UniqueId};
use crate::machine::Cpu;
use core::fmt;

/// A structure whose hits are cached: its identity and its version.
pub struct HitSource<C: Cpu> {
    id: UniqueId,
    version: AtomicU64<C>,
}

/// A [`HitSource`], and its version when a lookup began.
#[derive(Debug)]
pub struct HitVersion<'s, C: Cpu> {
    source: &'s HitSource<C>,
    version: u64,
}

impl<C: Cpu> Clone for HitVersion<'_, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C: Cpu> Copy for HitVersion<'_, C> {}

/// The last hit of one CPU, among all structures of a kind that it looks into: `WORDS` words.
pub struct LastHit<C: Cpu, const WORDS: usize> {
    /// The number of the [`HitSource`]; 0: nothing is cached.
    source: AtomicU64<C>,
    version: AtomicU64<C>,
    words: [AtomicU64<C>; WORDS],
}

/// The last hits of one CPU. They lie in the data that an [`Rcu`](super::Rcu) has of the CPU, on the line
/// that each read section writes; so all are of structures that are read under that RCU.
#[derive(Debug)]
pub struct LastHits<C: Cpu> {
    item: LastHit<C, 1>,
    table: LastHit<C, 2>,
}

impl<C: Cpu> LastHits<C> {
    /// Nothing is cached.
    pub(super) const fn new() -> Self {
        Self { item: LastHit::new(), table: LastHit::new() }
    }

    /// An item of an index, by its address.
    #[inline(always)]
    pub fn item(&self) -> &LastHit<C, 1> {
        &self.item
    }

    /// Forgets the hits, by one store for each: a [`LastHit::get`] or [`LastHit::set`] of code that this
    /// interrupts remains right, which finds nothing, or caches nothing, at worst.
    pub(super) fn clear(&self) {
        self.item.source.store(0, Relaxed);
        self.table.source.store(0, Relaxed);
    }

    /// A table of one of the two lowest levels: the region that it covers, and its frame.
    #[inline(always)]
    pub fn table(&self) -> &LastHit<C, 2> {
        &self.table
    }
}

impl<C: Cpu> HitSource<C> {
    /// A structure that has unlinked nothing yet.
    pub fn new() -> Self {
        Self { id: UniqueId::new(), version: AtomicU64::new(0) }
    }

    /// Invalidates every cached hit. A writer calls this after it has unlinked something and before it
    /// retires it. Two may do so at once.
    pub fn invalidate(&self) {
        if mutant!("last-hit.invalidation-lost") {
            return self.version.store(self.version.load(Relaxed) + 1, Release);
        }
        // Release: a lookup that reads the new version, or one that another writer makes of it, finds nothing
        // that was unlinked before it.
        self.version.fetch_add(1, Release);
    }

    /// The version to look up under, read before the lookup; pairs with [`invalidate`](Self::invalidate).
    #[inline(always)]
    pub fn version(&self) -> HitVersion<'_, C> {
        HitVersion { source: self, version: self.version.load(Acquire) }
    }
}

impl<C: Cpu, const WORDS: usize> LastHit<C, WORDS> {
    const fn new() -> Self {
        Self {
            source: AtomicU64::new(0),
            version: AtomicU64::new(0),
            words: [const { AtomicU64::new(0) }; WORDS],
        }
    }

    /// The words that this CPU has cached under the section's RCU, if they are a hit in the source of `now`,
    /// at that version. Then that RCU is the one under which the structure is read.
    #[inline(always)]
    pub fn get(
        section: &ReadGuard<'_, C>,
        part: fn(&LastHits<C>) -> &Self,
        now: HitVersion<'_, C>,
    ) -> Option<[u64; WORDS]> {
        let hit = part(section.last_hits());
        let is_source = hit.source.load(Relaxed) == now.source.id.get();
        let valid = is_source && hit.version.load(Relaxed) == now.version;
        valid.then(|| core::array::from_fn(|word| hit.words[word].load(Relaxed)))
    }

    /// Caches a hit, unless the section is not this CPU's only one of its RCU.
    ///
    /// # Safety
    /// 1. The words are the result of a lookup in the structure that has the source of `found_at`, which
    ///    began after that version was read, in the read section `section`.
    /// 2. Whatever the words name is retired under the RCU of the section, and only after it was unlinked and
    ///    the source then [invalidated](HitSource::invalidate).
    /// 3. Every hit of the source that any CPU caches is words of the same meaning.
    #[inline(always)]
    pub unsafe fn set(
        section: &ReadGuard<'_, C>,
        part: fn(&LastHits<C>) -> &Self,
        found_at: HitVersion<'_, C>,
        words: [u64; WORDS],
    ) {
        if !section.is_only() && !mutant!("last-hit.set-in-inner-section") {
            return;
        }
        let hit = part(section.last_hits());
        hit.source.store(found_at.source.id.get(), Relaxed);
        hit.version.store(found_at.version, Relaxed);
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

impl<C: Cpu> fmt::Debug for HitSource<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "structure {} at version {:?}", self.id.get(), self.version)
    }
}

impl<C: Cpu, const WORDS: usize> fmt::Debug for LastHit<C, WORDS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "last hit in structure {:?} at version {:?}", self.source, self.version)
    }
}

#[cfg(all(test, loom))]
#[path = "tests/loom_last_hit.rs"]
mod loom_tests;
#[cfg(all(test, not(loom)))]
#[path = "tests/last_hit.rs"]
mod tests;
