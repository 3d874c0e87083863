//! Recounts everything: each frame is in exactly one state, and the lists say what the records say.
//!
//! Nobody else allocates or frees meanwhile.

use super::buddy::{Buddy, ORDERS};
use super::cache::CpuCache;
use super::memory::Span;
use super::state::buddy_of;
use super::{FrameState, Kind, Memory};
use crate::machine::Machine;
use crate::units::{Order, Pfn, PfnRange};
use core::fmt;

/// What a recount found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct FrameCounts {
    /// Frames in free blocks.
    pub free: u64,
    /// Frames in caches.
    pub cached: u64,
    /// Frames handed out, the zero page among them.
    pub handed_out: u64,
    /// Frames in blocks whose records nobody has written yet.
    pub deferred: u64,
    blocks: [u64; ORDERS],
}

/// What does not add up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameCheckError {
    /// The frame was given to a zone, and is now nowhere: reserved, or cut by the end of its region.
    Lost(Pfn),
    /// The frame lies inside a block, but its record says more than that.
    Inside(Pfn),
    /// Two free buddies that should be one block.
    Unmerged(Pfn),
    /// The frame is in a free list, but its record does not say so.
    Listed(Pfn),
    /// A free list that does not hold the blocks of its order.
    List(Order),
    /// The frame is in a CPU's cache, but its record does not say so, or not once.
    Stocked(Pfn),
    /// The counts of frames handed out and freed do not agree with the records.
    Counters,
}

impl<M: Machine> Memory<'_, M> {
    /// Recounts every frame, list and cache.
    ///
    /// # Errors
    /// The first thing that does not add up.
    pub fn check(&self) -> Result<FrameCounts, FrameCheckError> {
        let mut census = FrameCounts::default();
        // Blocks merge across the border of two regions of one zone that touch.
        for spans in self.spans.chunk_by(|a, b| a.zone == b.zone && a.frames.end == b.frames.start) {
            let span = Span {
                frames: PfnRange::new(spans[0].frames.start, spans[spans.len() - 1].frames.end),
                ..spans[0]
            };
            let mut at = span.frames.start;
            while at < span.frames.end {
                if at.is_aligned(Order::MAX) && self.deferred.is_raw(at) {
                    census.deferred += Order::MAX.frames();
                    at = at.add(Order::MAX.frames());
                    continue;
                }
                at = self.check_block(at, span.frames.end, span.zone, &mut census)?;
            }
        }
        self.check_lists(&census)?;
        self.check_caches(&census)?;
        let stats = self.stats();
        let all = census.free + census.cached + census.handed_out + census.deferred;
        let waits = stats.deferred == census.deferred;
        let agrees = waits && stats.managed == all && stats.handed_out() == census.handed_out;
        if agrees { Ok(census) } else { Err(FrameCheckError::Counters) }
    }

    /// Counts the block that starts at `at`, and returns what comes after it.
    fn check_block(
        &self,
        at: Pfn,
        end: Pfn,
        zone: u8,
        census: &mut FrameCounts,
    ) -> Result<Pfn, FrameCheckError> {
        let state = self.meta(at).ok_or(FrameCheckError::Lost(at))?.state();
        let (order, next) = (state.order(), at.add(state.order().frames()));
        match state.kind() {
            Kind::Reserved => return Err(FrameCheckError::Lost(at)),
            Kind::Free => {
                if !state.is_free_block(zone, order) || !at.is_aligned(order) || order > Order::MAX {
                    return Err(FrameCheckError::Listed(at));
                }
                // The largest merge with nobody, and the one beside may not be written yet.
                let buddy = (order < Order::MAX).then(|| self.meta(buddy_of(at, order))).flatten();
                if buddy.is_some_and(|buddy| buddy.state().is_free_block(zone, order)) {
                    return Err(FrameCheckError::Unmerged(at));
                }
                census.free += order.frames();
                census.blocks[order.0 as usize] += 1;
            }
            Kind::Cached => census.cached += 1,
            _ => census.handed_out += order.frames(),
        }
        if next > end {
            return Err(FrameCheckError::Lost(end));
        }
        let inside = (at.0 + 1..next.0).map(Pfn);
        let says_more = |pfn: &Pfn| self.meta(*pfn).is_none_or(|m| !m.state().may_lie_inside());
        inside.clone().find(says_more).map_or(Ok(next), |pfn| Err(FrameCheckError::Inside(pfn)))
    }

    fn check_lists(&self, census: &FrameCounts) -> Result<(), FrameCheckError> {
        let mut blocks = [0; ORDERS];
        for (index, zone) in self.zones.iter().enumerate() {
            for (order, count) in blocks.iter_mut().enumerate() {
                *count += zone.inspect(|buddy| self.check_list(buddy, index as u8, order))?;
            }
        }
        match (0..ORDERS).find(|&order| blocks[order] != census.blocks[order]) {
            Some(order) => Err(FrameCheckError::List(Order(order as u8))),
            None => Ok(()),
        }
    }

    fn check_list(&self, buddy: &Buddy<M::Cpu>, zone: u8, order: usize) -> Result<u64, FrameCheckError> {
        let (mut at, mut before, mut count) = (buddy.head(order), None, 0);
        while let Some(pfn) = at {
            let meta = self.meta(pfn).ok_or(FrameCheckError::Listed(pfn))?;
            let listed = meta.state().is_free_block(zone, Order(order as u8));
            if !listed || meta.links().prev != before || count == buddy.count(order) {
                return Err(FrameCheckError::Listed(pfn));
            }
            (before, at, count) = (at, meta.links().next, count + 1);
        }
        if count == buddy.count(order) { Ok(count) } else { Err(FrameCheckError::List(Order(order as u8))) }
    }

    /// Every slot holds a cached frame, and there are as many as records say: so no frame is there twice.
    fn check_caches(&self, census: &FrameCounts) -> Result<(), FrameCheckError> {
        let (mut stocked, mut wrong) = (0, None);
        self.visit_caches(|cache: &CpuCache<M::Cpu>, pfn, init| {
            stocked += 1;
            let cached = self.meta(pfn).is_some_and(|meta| meta.state() == FrameState::cached(init));
            if !cached || stocked > census.cached || cache.tally.len() == 0 {
                wrong = wrong.or(Some(pfn));
            }
        });
        match wrong {
            Some(pfn) => Err(FrameCheckError::Stocked(pfn)),
            None if stocked != census.cached => Err(FrameCheckError::Counters),
            None => Ok(()),
        }
    }
}

impl fmt::Display for FrameCheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameCheckError::Lost(pfn) => write!(f, "{pfn:?} is nowhere"),
            FrameCheckError::Inside(pfn) => {
                write!(f, "{pfn:?} lies inside a block and is something of its own")
            }
            FrameCheckError::Unmerged(pfn) => {
                write!(f, "the free block at {pfn:?} is not merged with its buddy")
            }
            FrameCheckError::Listed(pfn) => write!(f, "{pfn:?} is in a free list, its record disagrees"),
            FrameCheckError::List(order) => write!(f, "the free list of {order:?} does not hold its blocks"),
            FrameCheckError::Stocked(pfn) => write!(f, "{pfn:?} is in a cache, its record disagrees"),
            FrameCheckError::Counters => f.write_str("the counts do not agree with the records"),
        }
    }
}

impl core::error::Error for FrameCheckError {}
