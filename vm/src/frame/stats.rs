//! Counts for people and counters, read without stopping anybody.

use super::Memory;
use super::buddy::ORDERS;
use crate::machine::Machine;
use crate::sync::atomic::Ordering::Relaxed;

/// What [`Memory::stats`] counts. Exact where nobody allocates meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Stats {
    /// Frames that the zones were given at start.
    pub managed: u64,
    /// Of these, frames that no zone has got yet: their records wait to be written.
    pub deferred: u64,
    /// Free blocks in the zones, by order.
    pub free_blocks: [u64; ORDERS],
    /// Frames in CPUs' caches.
    pub cached: u64,
    /// Frames handed out since start.
    pub pgalloc: u64,
    /// Frames freed since start.
    pub pgfree: u64,
    /// Frames that claimants took out of other CPUs' caches.
    pub drained: u64,
    /// Frees that were refused: of foreign or free frames.
    pub refused: u64,
}

impl Stats {
    /// Free frames in the zones.
    pub fn free(&self) -> u64 {
        self.free_blocks.iter().enumerate().map(|(order, count)| count << order).sum()
    }

    /// Frames that are handed out.
    pub fn handed_out(&self) -> u64 {
        self.pgalloc.wrapping_sub(self.pgfree)
    }
}

impl<M: Machine> Memory<'_, M> {
    /// Counts what there is.
    pub fn stats(&self) -> Stats {
        let mut stats = Stats { refused: self.refused.load(Relaxed), ..Stats::default() };
        for zone in self.zones {
            stats.managed += zone.managed();
            stats.deferred += zone.waiting();
            for (sum, count) in stats.free_blocks.iter_mut().zip(zone.free_blocks()) {
                *sum += count;
            }
        }
        for (_, cache) in self.caches.iter() {
            stats.cached += cache.tally.len() as u64;
            stats.pgalloc += cache.pgalloc();
            // One CPU's may be below zero on the way: frames are freed elsewhere than they were allocated.
            stats.pgfree = stats.pgfree.wrapping_add(cache.pgfree());
            stats.drained += cache.drained.load(Relaxed);
        }
        stats
    }
}
