//! Counters, read without stopping any CPU.

use super::Memory;
use super::zone::ORDERS;
use crate::machine::Machine;
use crate::sync::atomic::Ordering::Relaxed;

/// Counters of a memory. Exact while no CPU allocates or frees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Frames that the zones manage.
    pub managed: u64,
    /// Of these, frames that are not free to allocate yet: their records are not initialised.
    pub deferred: u64,
    /// Free blocks in the zones, by order.
    pub free_blocks: [u64; ORDERS],
    /// Frames in CPUs' caches.
    pub cached: u64,
    /// Frames allocated since start.
    pub pgalloc: u64,
    /// Frames freed since start.
    pub pgfree: u64,
    /// Frames drained from other CPUs' caches.
    pub drained: u64,
    /// Frees that were refused: of free frames, or of frames that are not the library's.
    pub refused: u64,
}

impl Stats {
    /// Free frames in the zones.
    pub fn free(&self) -> u64 {
        self.free_blocks.iter().enumerate().map(|(order, count)| count << order).sum()
    }

    /// Frames that are allocated.
    pub fn allocated(&self) -> u64 {
        self.pgalloc.wrapping_sub(self.pgfree)
    }
}

impl<M: Machine> Memory<'_, M> {
    /// Reads the counters.
    pub fn stats(&self) -> Stats {
        let mut stats = Stats { refused: self.refused.load(Relaxed), ..Stats::default() };
        for zone in self.zones {
            stats.managed += zone.managed();
            stats.deferred += zone.deferred();
            zone.collect_all(&self.table);
            for (sum, count) in stats.free_blocks.iter_mut().zip(zone.free_blocks()) {
                *sum += count;
            }
        }
        for (_, cache) in self.caches.iter() {
            stats.cached += cache.count.len() as u64;
            stats.pgalloc += cache.pgalloc();
            // One CPU's may be below zero: frames may be freed on another CPU than they were allocated on.
            stats.pgfree = stats.pgfree.wrapping_add(cache.pgfree());
            stats.drained += cache.drained.load(Relaxed);
        }
        stats
    }
}
