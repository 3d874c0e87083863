//! A space's record of the CPUs that translate through it.

use crate::machine::Cpu;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use crate::sync::{AtomicCpuMask, CacheAligned};
use crate::units::CpuMask;

/// A space's side of the shootdown: its generation, the CPUs that run it, and the number of edits
/// that wait for their flush.
#[derive(Debug)]
pub struct SpaceTlb<C: Cpu> {
    /// Never 0 and never used twice, so that a CPU's note of the loaded space is unambiguous. It lies with
    /// the mask, which changes when a CPU loads or unloads the space; what changes with each flush lies
    /// elsewhere.
    id: u64,
    /// Edits that must be flushed, counted. Advanced after the edit; the fence in `advance` pairs with the
    /// one in `enter`.
    generation: CacheAligned<AtomicU64<C>>,
    /// Weakening edits whose flush has not ended; see [`PendingFlush`].
    flushes_pending: CacheAligned<AtomicU32<C>>,
    /// 1 while an edit may leave frames in their slots, else 0; see [`Deferral`].
    deferral: AtomicU32<C>,
    /// CPUs whose translations may come from this space. Set by its CPU before it reads the generation,
    /// cleared after another root is loaded: by the CPU, or by a flusher, where the CPU left in an interrupt.
    pub(super) cpus: AtomicCpuMask<C>,
}

impl<C: Cpu> SpaceTlb<C> {
    /// A space that runs nowhere. `id` is not 0 and unique among all spaces of a [`super::Shootdown`], past
    /// ones too.
    pub fn new(id: u64) -> Self {
        debug_assert_ne!(id, 0);
        Self {
            id,
            generation: CacheAligned(AtomicU64::new(1)),
            flushes_pending: CacheAligned(AtomicU32::new(0)),
            deferral: AtomicU32::new(0),
            cpus: AtomicCpuMask::new(),
        }
    }

    /// The space's number.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The generation that a CPU which starts now has seen.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Acquire)
    }

    /// Counts an edit made before the call, and orders it before the reading of the mask that follows.
    pub(super) fn advance(&self) -> u64 {
        self.generation.fetch_add(1, AcqRel) + 1
    }

    /// The CPUs that run the space or keep its root lazily. Stale at once.
    pub fn cpus_racy(&self) -> CpuMask<C::CpuWords> {
        self.cpus.snapshot_racy()
    }

    /// Whether no CPU runs the space or keeps its root lazily. Acquires from the CPUs' removal: what a
    /// CPU did while it had the space loaded comes before what follows.
    pub fn is_loaded_nowhere(&self) -> bool {
        self.cpus.is_empty()
    }

    /// Raises the count of edits that wait for their flush, before the first edit that takes rights away
    /// (protocol P8).
    pub fn begin_edit(&self) -> PendingFlush<'_, C> {
        // Ordered before the edits by the table locks they are made under: a fault that sees an edit took the
        // lock after.
        self.flushes_pending.fetch_add(if mutant!("gather.pending-uncounted") { 0 } else { 1 }, AcqRel);
        PendingFlush { space: self }
    }

    /// The right to leave frames in their slots until they are flushed. `None` while another edit has it.
    ///
    /// Acquire, and release at its end: the slots of the last edit are empty. A reader of one takes its
    /// table's lock, too.
    pub(super) fn try_defer(&self) -> Option<Deferral<'_, C>> {
        let is_free = self.deferral.compare_exchange(0, 1, Acquire, Relaxed).is_ok();
        if mutant!("gather.deferral-freed-by-refusal") && !is_free {
            drop(Deferral { space: self });
        }
        // Made only where it was free: dropping one that was made for a refusal would end the other edit's.
        (is_free || mutant!("gather.deferral-not-exclusive")).then(|| Deferral { space: self })
    }

    /// Whether an edit may have happened whose flush has not ended. Called under the lock of the edited
    /// table, or after a section under the space's lock that met the edit's mappings.
    #[inline]
    pub fn is_flush_pending(&self) -> bool {
        self.flushes_pending.load(Acquire) > 0
    }
}

/// From an edit to the end of its flush. A fault that finds a write-protected entry while one exists
/// flushes the page before it copies, because another CPU may still write through the old translation.
#[derive(Debug)]
#[must_use = "the flush counts as ended once this is dropped"]
pub struct PendingFlush<'a, C: Cpu> {
    space: &'a SpaceTlb<C>,
}

impl<'a, C: Cpu> PendingFlush<'a, C> {
    pub(super) fn space(&self) -> &'a SpaceTlb<C> {
        self.space
    }

    /// Whether another edit of the space waits for its flush too: then entries that this one found absent may
    /// still be cached.
    pub fn overlaps_another(&self) -> bool {
        !mutant!("gather.overlap-ignored") && self.space.flushes_pending.load(Acquire) > 1
    }
}

/// The right of one edit of a space to leave frames in their slots, *pending*, until it has flushed. One edit
/// at a time has it: so it knows the pending slots that it finds afterwards as its own, whose flush has
/// ended. Another edit does without, and flushes more often.
#[derive(Debug)]
pub(super) struct Deferral<'a, C: Cpu> {
    space: &'a SpaceTlb<C>,
}

impl<C: Cpu> Drop for Deferral<'_, C> {
    fn drop(&mut self) {
        self.space.deferral.store(0, Release);
    }
}

impl<C: Cpu> Drop for PendingFlush<'_, C> {
    fn drop(&mut self) {
        self.space.flushes_pending.fetch_sub(1, AcqRel);
    }
}
