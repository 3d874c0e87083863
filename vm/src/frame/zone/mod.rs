//! Zones: the free memory of each node, in regions with a lock each.
//!
//! ```text
//!                        Zone (a node): Budget, what of all free frames may be taken
//!    ┌──────────────┬──────────────┬──────────────┬──────────────┐
//!    │ Region       │ Region       │ Region       │ Region       │  4 to 128 MiB each
//!    │ lock, lists  │ lock, lists  │ lock, lists  │ lock, lists  │
//!    │ returned     │ returned ◄───┼── run ───┐   │ returned     │
//!    └──────▲───────┴──────▲───────┴──────────┼───┴──────▲───────┘
//!           │ reserved     │ reserved         │          │ none has reserved it
//!         CPU 0          CPU 1              CPU 2: frees a frame of CPU 1's region
//! ```
//!
//! A CPU takes frames from a region that it has reserved, and frees to it, under a lock that is its own most
//! of the time. Frames of other regions go back without their lock. What a CPU knows of other regions are
//! hints; they decide nothing, as a CPU that finds no frame asks all regions.
//!
//! | file | holds |
//! |---|---|
//! | this one | [`Zone`] |
//! | `take`, `give` | allocation down to the watermark; freeing |
//! | `run` | runs of several regions |
//! | `region` | regions: their locks, which CPU has reserved which |
//! | `hint` | what a region has, roughly |
//! | `returned` | frames on their way back to a region, without its lock |
//! | `budget` | how many frames of the zone may still be taken |
//! | `buddy` | [`Buddy`]: free blocks by order, split and merged |
//! | `block_list` | [`BlockList`]: blocks linked beforehand, to be freed in one step |
//! | `distance` | [`DistanceList`]: which zones an allocation asks, nearest first |
//! | `watermark` | [`Watermark`]: how much is kept back, by priority |
//!
//! | lock | rank | guards |
//! |---|---|---|
//! | `Zone::runs` | `lockdep::ZONE_RUN` | the right to take a run of several regions, or to ask all of them |
//! | a region's `lists` | `lockdep::ZONE` | the lists, and every record there that is `Free` or becomes so |
//!
//! That of a region is held for one block, or one batch of frames, at a time; its holder waits for nothing.
//! No CPU holds two of them. docs/design/frames.md has the details.

mod block_list;
mod buddy;
mod budget;
mod distance;
mod give;
mod hint;
mod region;
mod returned;
mod run;
mod take;
mod watermark;

pub(in crate::frame) use block_list::BlockList;
pub(in crate::frame) use buddy::{Buddy, ORDERS, are_scattered};
pub(in crate::frame) use distance::{DistanceList, nearest_zone, sort_by_distance};
pub(in crate::frame) use region::RegionPlan;
pub(in crate::frame) use take::ZoneSearch;
pub use watermark::Watermark;

use crate::frame::huge_zero::HugeZeroCell;
use crate::frame::hugetlb::HugetlbList;
use crate::frame::zero_table::ZeroTableCell;
use crate::frame::{FrameTable, Priority};
use crate::machine::Cpu;
use crate::sync::atomic::{AtomicU64, Ordering::*};
use crate::sync::{CacheAligned, Carve, SpinLock, lockdep};
use crate::units::{CpuId, NodeId, Order, Pfn, PfnRange};
use budget::Budget;
use region::Regions;

/// The free memory of one node, on cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
pub struct Zone<'m, C: Cpu> {
    index: u8,
    node: NodeId,
    managed: u64,
    watermark: Watermark,
    regions: Regions<'m, C>,
    /// Frames that are deferred: not freed to the zone yet. Lowered with release after they were freed; pairs
    /// with the acquire of an allocation that found none.
    deferred: AtomicU64<C>,
    /// On a line of its own: loads of untouched memory read it.
    huge_zero: CacheAligned<HugeZeroCell<C>>,
    /// The table of zeros, in the place of that page.
    zero_table: ZeroTableCell<C>,
    /// The order of the largest block that was free when a lock was last released, plus one; 0 where none
    /// was. Of several regions, of the one that had the largest: where all had none, it stays low until the
    /// lock of a region with such a block is released. Written under a region's lock, when it changes; read
    /// without, as a hint.
    largest_block: CacheAligned<AtomicU64<C>>,
    budget: CacheAligned<Budget<C>>,
    runs: SpinLock<(), C, { lockdep::ZONE_RUN.0 }>,
    /// The node's part of the hugetlb pool, by size; guarded by the lock of that.
    hugetlb: [HugetlbList<C>; 2],
}

/// Usable frames of one region of the boot map, and the zone that they belong to.
#[derive(Clone, Copy, Debug)]
pub(in crate::frame) struct ZoneRange {
    pub frames: PfnRange,
    pub zone: u8,
}

/// Which zone it is.
#[derive(Clone, Copy, Debug)]
pub(in crate::frame) struct ZonePlace {
    /// Its index among the zones.
    pub index: u8,
    /// The node that it has the memory of.
    pub node: NodeId,
}

impl<'m, C: Cpu> Zone<'m, C> {
    /// A zone without free frames, not yet told how many it [manages](Self::manage). Its regions lie in
    /// carved memory. `home`: which part of the zone each CPU looks at first, of how many; asked in order.
    pub(in crate::frame) fn carve(
        from: &mut impl Carve<'m>,
        place: ZonePlace,
        plan: RegionPlan,
        nr_cpus: u32,
        home: impl FnMut(CpuId) -> (usize, usize),
    ) -> Option<Self> {
        let watermark = Watermark::for_frames(0);
        Some(Self {
            index: place.index,
            node: place.node,
            managed: 0,
            watermark,
            regions: Regions::carve(from, plan, place.index, nr_cpus, home)?,
            deferred: AtomicU64::new(0),
            huge_zero: CacheAligned(HugeZeroCell::new()),
            zero_table: ZeroTableCell::new(),
            largest_block: CacheAligned(AtomicU64::new(0)),
            budget: CacheAligned(Budget::new(watermark)),
            runs: SpinLock::new(()),
            hugetlb: [const { HugetlbList::new() }; 2],
        })
    }

    /// Says at start how many frames the zone is going to manage, and so what it keeps back.
    pub(in crate::frame) fn manage(&mut self, frames: u64) {
        self.managed = frames;
        self.watermark = Watermark::for_frames(frames);
        self.budget = CacheAligned(Budget::new(self.watermark));
    }

    /// The node of the zone's memory.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// The word of the node's huge zero page; without pages for each node, that of the first zone is used.
    pub(in crate::frame) fn huge_zero(&self) -> &HugeZeroCell<C> {
        &self.huge_zero
    }

    /// The word of the node's table of zeros, as of the huge zero page.
    pub(in crate::frame) fn zero_table(&self) -> &ZeroTableCell<C> {
        &self.zero_table
    }

    /// The folios of the hugetlb pool of one size that lie on this node.
    pub(in crate::frame) fn hugetlb(&self, size: usize) -> &HugetlbList<C> {
        &self.hugetlb[size]
    }

    /// Frames that the zone manages, deferred ones among them.
    pub fn managed(&self) -> u64 {
        self.managed
    }

    /// The zone's watermarks.
    pub fn watermark(&self) -> Watermark {
        self.watermark
    }

    /// Number of free blocks by order; of each region all read at one moment. Frames on their way back to a
    /// region are not among them: [`Memory::stats`](crate::frame::Memory::stats) collects those first.
    pub fn free_blocks(&self) -> [u64; ORDERS] {
        let mut sum = [0; ORDERS];
        for at in 0..self.regions.len() {
            let lists = self.regions.region(at).lock();
            sum.iter_mut().enumerate().for_each(|(order, sum)| *sum += lists.buddy.nr_blocks(order));
        }
        sum
    }

    /// Frames that are deferred. Zero says that all were freed to the zone before.
    pub fn deferred(&self) -> u64 {
        self.deferred.load(Acquire)
    }

    /// Notes at start the number of deferred frames. The watermark counts them: a deferred frame can be free
    /// as soon as it is needed.
    pub(in crate::frame) fn expect_deferred(&self, frames: u64) {
        self.deferred.store(self.deferred.load(Relaxed) + frames, Relaxed);
        if !mutant!("zone.deferred-not-counted") {
            self.budget.add(frames);
        }
    }

    /// Whether frames of the zone are deferred, and `priority` may have 2^order frames once they are free.
    /// Called *before* a search: frames that arrive in between are found by the next search.
    pub(in crate::frame) fn may_initialise(
        &self,
        table: &FrameTable<'_, C>,
        order: Order,
        priority: Priority,
    ) -> bool {
        self.deferred() > 0 && priority > Priority::NoWait && self.is_allowed(table, order.frames(), priority)
    }

    /// The regions that this CPU takes frames from next, as ranges: its own, and those after its home. None
    /// where the zone is one region.
    pub(in crate::frame) fn near_parts(&self) -> impl Iterator<Item = PfnRange> {
        self.regions.near().map(|at| self.regions.frames_of(at))
    }

    /// An empty list of blocks for this zone.
    pub(in crate::frame) fn block_list(&self) -> BlockList {
        BlockList::new(self.index)
    }

    /// Whether the zone is one region.
    #[inline]
    pub(in crate::frame) fn is_one_region(&self) -> bool {
        self.regions.is_one()
    }

    /// Calls `inspect` with the lists of each region, under its lock, and a test for the frames that are its.
    pub(in crate::frame) fn inspect<R>(
        &self,
        mut inspect: impl FnMut(&Buddy<C>, &dyn Fn(Pfn) -> bool) -> R,
    ) -> impl Iterator<Item = R> {
        let all = 0..self.regions.len();
        all.map(move |at| inspect(&self.regions.region(at).lock().buddy, &|pfn| self.regions.of(pfn) == at))
    }

    /// Free and deferred frames as the budget counts them, and each region's credit. `None` where a region
    /// has more credit than free frames. Exact at rest.
    pub(in crate::frame) fn budgeted(&self) -> Option<u64> {
        (0..self.regions.len()).try_fold(self.budget.unassigned(), |sum, at| {
            let lists = self.regions.region(at).lock();
            let credit = lists.credit.get();
            (credit <= lists.buddy.free_frames()).then_some(sum + credit)
        })
    }

    /// Where the parts lie that CPUs share, each with its name, smaller parts after larger ones, for
    /// observers.
    pub(crate) fn each_part(&self, mut visit: impl FnMut(&'static str, core::ops::Range<usize>)) {
        let start = (&raw const *self).addr();
        visit("a zone's budget", start..start + size_of::<Self>());
        self.regions.each_part(visit);
    }
}

#[cfg(all(test, not(loom)))]
#[path = "../tests/zone_fragments.rs"]
mod fragments;
#[cfg(all(test, loom))]
#[path = "../tests/loom_zone.rs"]
mod loom_tests;
#[cfg(all(test, not(loom)))]
#[path = "../tests/zone.rs"]
mod tests;
