//! Each CPU's cache of free single frames, with its counts.
//!
//! ```text
//!   alloc_frame ──► pop                                    free_frame ──► push
//!                    │ empty                                               │ full
//!                    ▼                                                     ▼
//!       refill: a batch from the zone, in order        spill: the coldest batch to the zone
//! ```
//!
//! | file | holds |
//! |---|---|
//! | this one | [`CpuCache`]: a stack, its counts, and the size of the next batch |
//! | `stack` | [`Stack`] of packed frames or objects, and its [`Count`] |
//!
//! The cache is a stack: the frame freed last is warm and is allocated first. A batch comes from one block of
//! the zone that was split once, so it starts even and its records fill whole lines. A spill takes the
//! coldest part.
//!
//! A batch is [`BATCH`] frames at first, and twice as many each time the stack is empty again before it was
//! full, or full again before it was empty, up to half the stack: a CPU that allocates or frees thousands
//! takes the region's lock seldom, and one that needs a few caches few. (Linux: `per_cpu_pages`.)
//!
//! The owning CPU uses the cache by plain loads and stores. Another CPU that finds the zones empty revokes it
//! ([`AsymmetricCell`]), so no allocation fails because other CPUs cache free frames. A second, shorter stack
//! of 2 MiB blocks would lie beside the first.

mod stack;

pub(in crate::frame) use stack::{CachedFrame, Count, LEN, Stack, pack, unpack};

use crate::machine::Cpu;
use crate::sync::Plain;
use crate::sync::asymmetric::AsymmetricCell;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use core::fmt;

/// Frames of the first batch between a zone and a cache.
pub const BATCH: usize = 32;
/// The most frames that a cache holds.
pub const CAPACITY: usize = 256;
/// The most frames of a batch.
pub(in crate::frame) const MAX_BATCH: usize = CAPACITY / 2;

/// A CPU's cache and counts. The counts are written by their CPU only, in plain stores; other CPUs read
/// them, stale. The fields that every allocation touches come first, on one line with the bottom of the
/// stack.
///
/// Every frame that entered the cache is cached, allocated, or went back:
/// `refilled + pgfree = pgalloc + cached + spilled + drained`. `pgfree` is not stored but follows.
#[repr(C)]
pub(in crate::frame) struct CpuCache<C: Cpu> {
    /// Frames in the stack, and how many were allocated from it.
    pub count: Count<C>,
    /// Frames that came from a zone.
    pub refilled: AtomicU64<C>,
    /// Frames that went to a zone.
    pub spilled: AtomicU64<C>,
    /// Frames allocated on this CPU that never were in the stack.
    pub uncached: AtomicU64<C>,
    /// Frames that other CPUs drained. Written under the drain lock.
    pub drained: AtomicU64<C>,
    last_batch: LastBatch<C>,
    frames: AsymmetricCell<FrameStack<C>, C>,
}

/// A CPU's free frames.
pub(in crate::frame) type FrameStack<C> = Stack<C, [Plain<u64, C>; CAPACITY]>;

/// The direction of a batch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::frame) enum BatchKind {
    /// From the zone to the cache.
    Refill = 0,
    /// From the cache to the zone.
    Spill = 1,
}

impl<C: Cpu> CpuCache<C> {
    /// An empty cache.
    pub fn new() -> Self {
        Self {
            count: Count::new(),
            refilled: AtomicU64::new(0),
            spilled: AtomicU64::new(0),
            uncached: AtomicU64::new(0),
            drained: AtomicU64::new(0),
            last_batch: LastBatch::new(),
            frames: AsymmetricCell::new(Stack::new([const { Plain::new(0) }; CAPACITY])),
        }
    }

    /// Frames allocated on this CPU.
    pub fn pgalloc(&self) -> u64 {
        self.count.popped() + self.uncached.load(Relaxed)
    }

    /// Frames freed on this CPU; below zero, wrapped, where they were allocated elsewhere.
    pub fn pgfree(&self) -> u64 {
        let out = self.pgalloc()
            + self.count.len() as u64
            + self.spilled.load(Relaxed)
            + self.drained.load(Relaxed);
        out.wrapping_sub(self.refilled.load(Relaxed))
    }

    /// The part that its owner uses and another CPU may revoke.
    pub fn frames(&self) -> &AsymmetricCell<FrameStack<C>, C> {
        &self.frames
    }

    /// Counts frames that came from the zone, of which one, or all of a block, are allocated to the caller.
    pub fn count_uncached(&self, frames: u64) {
        self.refilled.add_own(frames);
        self.uncached.add_own(frames);
    }

    /// Number of frames of the next batch. Called by the CPU itself.
    pub fn next_batch(&self, kind: BatchKind) -> usize {
        self.last_batch.next(kind, MAX_BATCH)
    }
}

/// The last batch of a CPU: its size and direction, as [`next_batch`] packs them. Used by this CPU only.
struct LastBatch<C: Cpu>(AtomicU32<C>);

impl<C: Cpu> LastBatch<C> {
    /// There was none.
    const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Number of words of the next batch, at most `most`.
    fn next(&self, kind: BatchKind, most: usize) -> usize {
        let next = next_batch(self.0.load(Relaxed), kind, most);
        self.0.store(next, Relaxed);
        (next >> 1) as usize
    }
}

/// The batch after `last`: twice as many in the same direction, a small one after a turn. Bit 0 is the
/// direction, the rest the number of words.
const fn next_batch(last: u32, kind: BatchKind, most: usize) -> u32 {
    let (len, before) = ((last >> 1) as usize, last & 1);
    let doubled = if before == kind as u32 { 2 * len } else { BATCH };
    let next = if doubled < BATCH {
        BATCH
    } else if doubled > most {
        most
    } else {
        doubled
    };
    (next as u32) << 1 | kind as u32
}

impl<C: Cpu> fmt::Debug for CpuCache<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} frames cached", self.count.len())
    }
}

#[cfg(all(test, not(loom)))]
#[path = "../tests/percpu.rs"]
mod tests;
