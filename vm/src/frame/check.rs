//! The checker: recounts every frame. Each is in exactly one state, and the lists agree with the records.
//!
//! No CPU allocates or frees meanwhile.

use super::percpu::CpuCache;
use super::record::buddy_of;
use super::zone::{Buddy, ORDERS, Zone, ZoneRange};
use super::{FrameState, Kind, Memory};
use crate::machine::Machine;
use crate::units::{Order, PageSize, Pfn};
use core::fmt;

/// Recounted numbers of frames, by state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct FrameCounts {
    /// Frames in free blocks.
    pub free: u64,
    /// Frames in caches.
    pub cached: u64,
    /// Frames allocated, the zero page among them.
    pub allocated: u64,
    /// Frames in deferred blocks that are not claimed.
    pub deferred: u64,
    /// Pins of all frames together.
    pub pinned: u64,
    /// Free blocks by order.
    blocks: [u64; ORDERS],
    /// Huge pages of the hugetlb pool that are not in use, by size.
    hugetlb: [u64; 2],
}

/// The first contradiction that a recount found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrameCheckError {
    /// The frame belongs to a zone, and is in no state: reserved, or in a block that crosses the end of its
    /// region.
    Lost(Pfn),
    /// The frame lies inside a block, but its record has a state of its own.
    Inside(Pfn),
    /// Two free buddies that should be one block.
    Unmerged(Pfn),
    /// The frame is in a free list, but its record does not say so.
    Listed(Pfn),
    /// The free list does not hold the blocks of its order.
    List(Order),
    /// The frame is in a CPU's cache, but its record does not say so, or it is there twice.
    Cached(Pfn),
    /// The frame is exclusive, and several entries map it.
    Exclusive(Pfn),
    /// The frame has more pins than references.
    Pinned(Pfn),
    /// The hugetlb pool of this size does not have the huge pages that records say.
    Hugetlb(PageSize),
    /// The counters of allocations and frees, or what zones may still give, do not agree with the records.
    Counters,
}

impl<M: Machine> Memory<'_, M> {
    /// Recounts every frame, list and cache.
    ///
    /// # Errors
    /// The first contradiction.
    pub fn check(&self) -> Result<FrameCounts, FrameCheckError> {
        self.zones.iter().for_each(|zone| zone.collect_all(&self.table));
        let mut recount = FrameRecount { memory: self, counts: FrameCounts::default() };
        recount.count_blocks()?;
        recount.check_lists()?;
        recount.check_caches()?;
        recount.check_hugetlb()?;
        recount.check_counters()?;
        Ok(recount.counts)
    }
}

/// A recount, and what it has counted so far.
struct FrameRecount<'m, M: Machine> {
    memory: &'m Memory<'m, M>,
    counts: FrameCounts,
}

impl<M: Machine> FrameRecount<'_, M> {
    fn count_blocks(&mut self) -> Result<(), FrameCheckError> {
        // Blocks merge across the border of two adjacent ranges of one zone.
        let is_one = |a: &ZoneRange, b: &ZoneRange| a.zone == b.zone && a.frames.end == b.frames.start;
        for ranges in self.memory.zone_ranges.chunk_by(is_one) {
            let (mut at, end) = (ranges[0].frames.start, ranges[ranges.len() - 1].frames.end);
            while at < end {
                if at.is_aligned(Order::MAX) && self.memory.deferred.is_unclaimed(at) {
                    self.counts.deferred += Order::MAX.frames();
                    at = at.add(Order::MAX.frames());
                    continue;
                }
                at = self.count_block(at, end, ranges[0].zone)?;
            }
        }
        Ok(())
    }

    /// Counts the block that starts at `at`, and returns the frame after it.
    fn count_block(&mut self, at: Pfn, end: Pfn, zone: u8) -> Result<Pfn, FrameCheckError> {
        let (memory, counts) = (self.memory, &mut self.counts);
        let meta = memory.meta(at).ok_or(FrameCheckError::Lost(at))?;
        let state = meta.state();
        let (order, next) = (state.order(), at.add(state.order().frames()));
        match state.kind() {
            Kind::Reserved => return Err(FrameCheckError::Lost(at)),
            Kind::Free => {
                if !state.is_free_block(zone, order) || !at.is_aligned(order) || order > Order::MAX {
                    return Err(FrameCheckError::Listed(at));
                }
                // The largest blocks never merge, and the record of the next one may not be initialised.
                let buddy = (order < Order::MAX).then(|| memory.meta(buddy_of(at, order))).flatten();
                if buddy.is_some_and(|buddy| buddy.state().is_free_block(zone, order)) {
                    return Err(FrameCheckError::Unmerged(at));
                }
                counts.free += order.frames();
                counts.blocks[order.0 as usize] += 1;
            }
            Kind::Cached => counts.cached += 1,
            Kind::User if state.is_exclusive() && meta.mapcount() > 1 => {
                return Err(FrameCheckError::Exclusive(at));
            }
            kind => {
                counts.allocated += order.frames();
                if kind == Kind::Taken && state.is_hugetlb() {
                    counts.hugetlb[usize::from(order > Order::HUGE)] += 1;
                }
                if kind.is_counted() {
                    let pins = meta.pincount();
                    counts.pinned += u64::from(pins);
                    if pins > state.refcount() {
                        return Err(FrameCheckError::Pinned(at));
                    }
                }
            }
        }
        if next > end {
            return Err(FrameCheckError::Lost(end));
        }
        let inside = (at.0 + 1..next.0).map(Pfn);
        let has_state = |pfn: &Pfn| memory.meta(*pfn).is_none_or(|m| !m.state().may_lie_inside());
        inside.clone().find(has_state).map_or(Ok(next), |pfn| Err(FrameCheckError::Inside(pfn)))
    }

    fn check_lists(&self) -> Result<(), FrameCheckError> {
        let mut blocks = [0; ORDERS];
        for (index, zone) in self.memory.zones.iter().enumerate() {
            for (order, count) in blocks.iter_mut().enumerate() {
                let check = |buddy: &Buddy<_>, is_its: &dyn Fn(Pfn) -> bool| {
                    self.check_list(buddy, (index as u8, is_its), order)
                };
                *count += zone.inspect(check).sum::<Result<u64, _>>()?;
            }
        }
        match (0..ORDERS).find(|&order| blocks[order] != self.counts.blocks[order]) {
            Some(order) => Err(FrameCheckError::List(Order(order as u8))),
            None => Ok(()),
        }
    }

    fn check_list(
        &self,
        buddy: &Buddy<M::Cpu>,
        (zone, is_its): (u8, &dyn Fn(Pfn) -> bool),
        order: usize,
    ) -> Result<u64, FrameCheckError> {
        let (mut at, mut before, mut count) = (buddy.head(order), None, 0);
        while let Some(pfn) = at {
            let meta = self.memory.meta(pfn).ok_or(FrameCheckError::Listed(pfn))?;
            let listed = meta.state().is_free_block(zone, Order(order as u8)) && is_its(pfn);
            if !listed || meta.links().prev != before || count == buddy.nr_blocks(order) {
                return Err(FrameCheckError::Listed(pfn));
            }
            (before, at, count) = (at, meta.links().next, count + 1);
        }
        if count == buddy.nr_blocks(order) {
            Ok(count)
        } else {
            Err(FrameCheckError::List(Order(order as u8)))
        }
    }

    /// Every slot holds a cached frame, and there are as many as records say: so no frame is cached twice.
    fn check_caches(&self) -> Result<(), FrameCheckError> {
        let (mut cached_frames, mut wrong) = (0, None);
        self.memory.visit_caches(|cache: &CpuCache<M::Cpu>, pfn, init| {
            cached_frames += 1;
            let cached = self.memory.meta(pfn).is_some_and(|meta| meta.state() == FrameState::cached(init));
            if !cached || cached_frames > self.counts.cached || cache.count.len() == 0 {
                wrong = wrong.or(Some(pfn));
            }
        });
        match wrong {
            Some(pfn) => Err(FrameCheckError::Cached(pfn)),
            None if cached_frames != self.counts.cached => Err(FrameCheckError::Counters),
            None => Ok(()),
        }
    }

    fn check_hugetlb(&self) -> Result<(), FrameCheckError> {
        for (size, hugetlb) in [PageSize::Huge, PageSize::Giant].into_iter().zip(self.counts.hugetlb) {
            if !self.memory.hugetlb().is_sound(size, hugetlb) {
                return Err(FrameCheckError::Hugetlb(size));
            }
        }
        Ok(())
    }

    fn check_counters(&self) -> Result<(), FrameCheckError> {
        let (counts, stats) = (&self.counts, self.memory.stats());
        let all = counts.free + counts.cached + counts.allocated + counts.deferred;
        let deferred_agrees = stats.deferred == counts.deferred;
        let agrees = deferred_agrees && stats.managed == all && stats.allocated() == counts.allocated;
        let budgeted =
            |sum: u64, zone: &Zone<'_, M::Cpu>| (sum + zone.budgeted()?).checked_sub(zone.deferred());
        let may_be_taken = self.memory.zones.iter().try_fold(0, budgeted);
        let all_agree = agrees && may_be_taken == Some(counts.free);
        if all_agree { Ok(()) } else { Err(FrameCheckError::Counters) }
    }
}

impl fmt::Display for FrameCheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameCheckError::Lost(pfn) => write!(f, "{pfn:?} is in no state"),
            FrameCheckError::Inside(pfn) => {
                write!(f, "{pfn:?} lies inside a block and has a state of its own")
            }
            FrameCheckError::Unmerged(pfn) => {
                write!(f, "the free block at {pfn:?} is not merged with its buddy")
            }
            FrameCheckError::Listed(pfn) => write!(f, "{pfn:?} is in a free list, its record disagrees"),
            FrameCheckError::List(order) => write!(f, "the free list of {order:?} does not hold its blocks"),
            FrameCheckError::Cached(pfn) => write!(f, "{pfn:?} is in a cache, its record disagrees"),
            FrameCheckError::Exclusive(pfn) => write!(f, "{pfn:?} is exclusive and mapped more than once"),
            FrameCheckError::Pinned(pfn) => write!(f, "{pfn:?} has more pins than references"),
            FrameCheckError::Hugetlb(size) => {
                write!(f, "the hugetlb pool of {size:?} disagrees with records")
            }
            FrameCheckError::Counters => f.write_str("the counts do not agree with the records"),
        }
    }
}

impl core::error::Error for FrameCheckError {}
