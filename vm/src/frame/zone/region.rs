//! The regions of a zone: each has free lists and a lock of its own.
//!
//! A region is an aligned power of two of frames, at least a block of the largest order: so no merge leaves
//! it. Most regions are reserved by no CPU or by one; that one takes from it, and so has its lines.

use super::buddy::Buddy;
use super::hint::{Hint, Known, Purpose};
use super::returned::Returned;
use crate::machine::Cpu;
use crate::sync::atomic::{AtomicU32, Ordering::*};
use crate::sync::{CacheAligned, Carve, PerCpu, Plain, PreemptGuard, SpinGuard, SpinLock};
use crate::sync::{carve_slice, fill, lockdep};
use crate::units::{CpuId, Order, Pfn, PfnRange};

/// How a zone is divided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::frame) struct RegionPlan {
    /// The number of the first region: its frames divided by those of a region.
    first: u64,
    len: usize,
    /// log2 of the frames of a region.
    shift: u32,
}

/// The regions of a zone, and which of them each CPU has reserved.
#[derive(Debug)]
pub(super) struct Regions<'m, C: Cpu> {
    plan: RegionPlan,
    regions: &'m [ZoneRegion<C>],
    hints: &'m [Hint<C>],
    own: PerCpu<'m, OwnRegions<C>, C>,
}

/// A region, on cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct ZoneRegion<C: Cpu> {
    lists: SpinLock<Lists<C>, C, { lockdep::ZONE.0 }>,
    /// Other CPUs write it, without the lock.
    pub returned: CacheAligned<Returned<C>>,
}

/// What the lock of a region guards.
#[derive(Debug)]
pub(super) struct Lists<C: Cpu> {
    pub buddy: Buddy<C>,
    /// Free frames that may be taken without asking the zone's budget: no more than are free here.
    pub credit: Plain<u64, C>,
}

/// The regions that a CPU has reserved, and where it looks for others first: its part of the zone.
#[derive(Debug)]
pub(super) struct OwnRegions<C: Cpu> {
    /// The first region of the part.
    pub home: usize,
    /// How many there are.
    part: usize,
    /// The first of the other regions that it looks at for a fragment. Relaxed: as `reserved`.
    next: AtomicU32<C>,
    /// By purpose: the region plus one, 0 for none. Relaxed: written by their CPU, and read by no other.
    reserved: [AtomicU32<C>; 2],
}

/// Regions outside of its part that a CPU compares before it takes one.
const WINDOW: usize = 64;
/// Regions outside of its part that a CPU looks at before it splits a block of 2 MiB for a smaller one.
const OTHERS: usize = 12;

impl RegionPlan {
    /// At least so many regions for each CPU, where regions are not too small then.
    const PER_CPU: u64 = 4;
    /// log2 of the frames of the smallest and the largest region: 4 and 128 MiB.
    const SHIFTS: (u32, u32) = (Order::MAX.0 as u32, 15);
    /// A zone of fewer frames is not divided.
    const LEAST: u64 = if cfg!(loom) { 2 } else { 8 } << Self::SHIFTS.0;

    /// For a zone of `frames` frames in a span, nearest to so many CPUs. One CPU alone has nothing to divide.
    pub fn new(span: PfnRange, frames: u64, cpus: u64) -> Self {
        if cpus <= 1 || frames < Self::LEAST {
            return Self::UNDIVIDED;
        }
        let of = |shift: u32| {
            let (first, last) = (span.start.0 >> shift, (span.end.0 - 1) >> shift);
            Self { first, len: (last - first + 1) as usize, shift }
        };
        let (least, most) = Self::SHIFTS;
        let wanted = (frames / (Self::PER_CPU * cpus)).max(1).ilog2().clamp(least, most);
        // Large holes would be many regions.
        let is_dense = |plan: &Self| plan.len as u64 <= Self::PER_CPU * (frames >> plan.shift) + 64;
        (wanted..60).map(of).find(is_dense).unwrap_or(Self::UNDIVIDED)
    }

    /// One region.
    const UNDIVIDED: Self = Self { first: 0, len: 1, shift: 63 };

    /// The part of a region with these numbers.
    #[cfg(all(test, not(loom)))]
    pub fn parts(&self) -> (usize, u64) {
        (self.len, 1 << self.shift)
    }
}

impl<'m, C: Cpu> Regions<'m, C> {
    /// Regions without free frames, of the zone of this index. `home`: which part of the zone each CPU looks
    /// at first, of how many; asked in order.
    pub fn carve(
        from: &mut impl Carve<'m>,
        plan: RegionPlan,
        zone: u8,
        nr_cpus: u32,
        mut home: impl FnMut(CpuId) -> (usize, usize),
    ) -> Option<Self> {
        let regions = fill(carve_slice(from, plan.len)?, |_| ZoneRegion::new(zone));
        let (hints, own) = match plan.len {
            1 => (&[][..], PerCpu::none()),
            len => {
                let mut own = |cpu| {
                    let (part, parts) = home(cpu);
                    OwnRegions::new(part * len / parts, (len / parts).max(1))
                };
                let own = PerCpu::carve(from, nr_cpus, &mut own)?;
                (&*fill(carve_slice(from, len)?, |_| Hint::new()), own)
            }
        };
        Some(Self { plan, regions, hints, own })
    }

    /// Number of regions.
    pub fn len(&self) -> usize {
        self.regions.len()
    }

    /// Whether there is one region: then there are no hints, and no CPU reserves it.
    #[inline]
    pub fn is_one(&self) -> bool {
        self.regions.len() == 1
    }

    /// The region of a frame of the zone.
    #[inline]
    pub fn of(&self, pfn: Pfn) -> usize {
        ((pfn.0 >> self.plan.shift) - self.plan.first) as usize
    }

    /// The parts of a range, by region.
    pub fn parts(&self, frames: PfnRange) -> impl Iterator<Item = (usize, PfnRange)> {
        let size = 1 << self.plan.shift;
        let mut start = frames.start;
        core::iter::from_fn(move || {
            let border = Pfn((start.0 / size + 1) * size);
            let end = if mutant!("zone.range-not-divided") { frames.end } else { border.min(frames.end) };
            let part = (start < frames.end).then(|| (self.of(start), PfnRange::new(start, end)));
            start = end;
            part
        })
    }

    /// The region of this number.
    #[inline]
    pub fn region(&self, at: usize) -> &ZoneRegion<C> {
        &self.regions[at]
    }

    /// The hint of a region, where there are several regions.
    #[inline]
    pub fn hint(&self, at: usize) -> Option<&Hint<C>> {
        self.hints.get(at)
    }

    fn known(&self, at: usize) -> Known {
        self.hints[at].get()
    }

    /// Notes what a region has. The caller holds its lock.
    #[inline]
    pub fn note(&self, at: usize, buddy: &Buddy<C>) {
        if let Some(hint) = self.hint(at) {
            hint.note(buddy, 1 << self.plan.shift);
        }
    }

    /// What each CPU has reserved.
    pub fn own(&self) -> &PerCpu<'m, OwnRegions<C>, C> {
        &self.own
    }

    /// All regions, from `home` on.
    pub fn from(&self, home: usize) -> impl Iterator<Item = usize> {
        (home..self.len()).chain(0..home)
    }

    /// The region that this CPU takes frames from, and some from its home on. None where there is one region.
    pub fn near(&self) -> impl Iterator<Item = usize> {
        let preempt_off = PreemptGuard::<C>::new();
        let own = (!self.is_one()).then(|| self.own.this_cpu(&preempt_off));
        let (kept, home) = (own.as_ref().and_then(|own| own.get(Purpose::Frames)), own.map(|own| own.home));
        kept.into_iter().chain(home.into_iter().flat_map(|home| self.from(home).take(WINDOW)))
    }

    /// The frames of a region, whether there are such or not.
    pub fn frames_of(&self, at: usize) -> PfnRange {
        let size = 1u64 << self.plan.shift;
        let start = Pfn((self.plan.first + at as u64) * size);
        PfnRange::new(start, start.add(size))
    }

    /// Those that may have what is wanted, those that no CPU has reserved first.
    pub fn that_may_have(&self, purpose: Purpose, home: usize) -> impl Iterator<Item = usize> {
        let may = move |at: &usize| self.known(*at).may_have(purpose);
        let is_reserved = |at: &usize| self.known(*at).is_reserved();
        let first = self.from(home).filter(move |at| may(at) && !is_reserved(at));
        first.chain(self.from(home).filter(move |at| may(at) && is_reserved(at)))
    }

    /// The best region that no CPU has reserved: of this CPU's part, or else of the first that follow and
    /// have one.
    pub fn choose(&self, order: Order, own: &OwnRegions<C>) -> Option<usize> {
        let mut best: Option<(u32, usize)> = None;
        for (turn, at) in self.from(own.home).enumerate() {
            let begins = turn.checked_sub(own.part).is_some_and(|after| after % WINDOW == 0);
            if begins && best.is_some() {
                break;
            }
            let worth = self.known(at).worth(order);
            if worth > best.map_or(0, |(most, _)| most) {
                best = Some((worth, at));
            }
        }
        best.map(|(_, at)| at)
    }

    /// The fullest region that has fragments for a block of `order`: of this CPU's part, or else of a few
    /// others, which are others after none had any. For single frames only of its part, and only what no CPU
    /// has reserved: it is reserved next, and CPUs stay apart. Not `tried`.
    pub fn with_fragments(&self, order: Order, own: &OwnRegions<C>, tried: Option<usize>) -> Option<usize> {
        let is_block = order > Order::BASE;
        let offers = |known: Known, at| {
            known.has_fragments(order)
                && tried != Some(at)
                && (!known.is_reserved() || is_block && own.has(at))
        };
        let fullest = |from: usize, regions: usize| {
            let all = self.from(from).take(regions).map(|at| (self.known(at), at));
            let offered = all.filter(|(known, at)| offers(*known, *at));
            offered.min_by_key(|(known, _)| known.free()).map(|(_, at)| at)
        };
        let near = if is_block { own.part.min(WINDOW) } else { own.part };
        fullest(own.home, near).or_else(|| {
            let from = own.next.load(Relaxed) as usize % self.len();
            let looks = is_block && !mutant!("zone.others-not-asked");
            let found = looks.then(|| fullest(from, OTHERS)).flatten();
            if found.is_none() {
                own.next.store((from + OTHERS) as u32, Relaxed);
            }
            found
        })
    }

    /// Where the parts lie that CPUs share, for observers.
    pub fn each_part(&self, mut visit: impl FnMut(&'static str, core::ops::Range<usize>)) {
        let mut part = |name, start: usize, bytes: usize| visit(name, start..start + bytes);
        for region in self.regions {
            part(
                "a region's free lists and their lock",
                (&raw const *region).addr(),
                size_of::<ZoneRegion<C>>(),
            );
            let returned = &region.returned;
            part("frames that go back to a region", (&raw const *returned).addr(), size_of_val(returned));
        }
        part("hints of regions", self.hints.as_ptr().addr(), size_of_val(self.hints));
        let own = self.own.extent();
        part("a CPU's regions", own.start, own.len());
    }
}

impl<C: Cpu> ZoneRegion<C> {
    fn new(zone: u8) -> Self {
        let lists = Lists { buddy: Buddy::new(zone), credit: Plain::new(0) };
        Self { lists: SpinLock::new(lists), returned: CacheAligned(Returned::new()) }
    }

    /// Waits for the lock of the region's lists.
    #[inline]
    #[track_caller]
    pub fn lock(&self) -> SpinGuard<'_, Lists<C>, C> {
        self.lists.lock()
    }
}

impl<C: Cpu> OwnRegions<C> {
    const fn new(home: usize, part: usize) -> Self {
        Self {
            home,
            part,
            next: AtomicU32::new((home + part) as u32),
            reserved: [const { AtomicU32::new(0) }; 2],
        }
    }

    /// The region that this CPU has reserved.
    #[inline]
    pub fn get(&self, purpose: Purpose) -> Option<usize> {
        self.reserved[purpose as usize].load(Relaxed).checked_sub(1).map(|at| at as usize)
    }

    /// Notes which region this CPU has reserved, if any. Returns the one before.
    pub fn replace(&self, purpose: Purpose, at: Option<usize>) -> Option<usize> {
        let before = self.get(purpose);
        self.reserved[purpose as usize].store(at.map_or(0, |at| at as u32 + 1), Relaxed);
        before
    }

    /// Whether this CPU has reserved the region, for either purpose.
    #[inline]
    pub fn has(&self, at: usize) -> bool {
        let is_it = |word: &AtomicU32<C>| word.load(Relaxed) == at as u32 + 1;
        self.reserved.iter().any(is_it)
    }
}

#[cfg(all(test, not(loom)))]
#[path = "../tests/region.rs"]
mod tests;
