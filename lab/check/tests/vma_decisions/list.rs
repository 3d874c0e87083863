//! A space as a plain list of mappings, to which calls are applied through the library's decisions.

use interleaf::units::{VirtAddr, Vpn, VpnRange};
use interleaf::vma::{
    AnonId, Areas, Backing, Change, FlagAdvice, GUARD_PAGES, Gaps, ObjectId, Placement, VmaAttributes,
    VmaFlags, change, check, cut, merge, place, protect, reusable_anon,
};
use interleaf_check::calls::{Call, CallResult, Errno, MapFlags, MapLine, PAGE, Prot, Segv, advice};
use interleaf_check::setting::Setting;

/// The mappings of a space, upwards, and what hands out names.
pub struct Decisions {
    setting: Setting,
    list: Vec<VmaAttributes>,
    brk: u64,
    nr_backings: u64,
    nr_anons: u64,
}

/// What is compared.
pub type Seen = (Vec<CallResult>, Vec<MapLine>);

fn range(start: u64, end: u64) -> VpnRange {
    VpnRange::new(Vpn(start / PAGE), Vpn(end / PAGE))
}

fn access(prot: Prot) -> VmaFlags {
    let pairs =
        [(Prot::READ, VmaFlags::READ), (Prot::WRITE, VmaFlags::WRITE), (Prot::EXEC, VmaFlags::EXECUTE)];
    pairs.into_iter().filter(|(right, _)| prot.contains(*right)).map(|(_, flag)| flag).collect()
}

/// Advice that lives in a mapping's flags.
pub fn flag_advice(number: i32) -> Option<FlagAdvice> {
    Some(match number {
        advice::NORMAL => FlagAdvice::Normal,
        advice::RANDOM => FlagAdvice::Random,
        advice::SEQUENTIAL => FlagAdvice::Sequential,
        advice::DONTFORK => FlagAdvice::DontFork,
        advice::DOFORK => FlagAdvice::DoFork,
        advice::WIPEONFORK => FlagAdvice::WipeOnFork,
        advice::KEEPONFORK => FlagAdvice::KeepOnFork,
        advice::DONTDUMP => FlagAdvice::DontDump,
        advice::DODUMP => FlagAdvice::DoDump,
        advice::HUGEPAGE => FlagAdvice::HugePage,
        advice::NOHUGEPAGE => FlagAdvice::NoHugePage,
        _ => return None,
    })
}

impl Decisions {
    pub fn new(setting: &Setting) -> Self {
        let mut new = Self {
            brk: setting.start_brk,
            setting: setting.clone(),
            list: Vec::new(),
            nr_backings: 0,
            nr_anons: 0,
        };
        let [low, main] = setting.windows.clone();
        let (first, last) = (setting.min_addr, setting.task_end);
        for foreign in [first..low.start, low.end..main.start, main.end..last] {
            let backing = new.new_backing();
            let flags = VmaFlags::SHARED | VmaFlags::NORESERVE | VmaFlags::MAY_ACCESS;
            new.list.push(VmaAttributes::backed(range(foreign.start, foreign.end), flags, backing, 0));
        }
        new
    }

    pub fn run(mut self, calls: &[Call]) -> Seen {
        let answers = calls.iter().map(|call| self.call(call)).collect();
        (answers, self.map())
    }

    fn call(&mut self, call: &Call) -> CallResult {
        let done = match *call {
            Call::Mmap { hint, len, prot, flags } => self.mmap(hint, len, prot, flags),
            Call::Munmap { addr, len } => Ok(self.remove(range(addr, addr + len))),
            Call::Mprotect { addr, len, prot } => self.mprotect(range(addr, addr + len), access(prot)),
            Call::Madvise { addr, len, advice } => self.madvise(range(addr, addr + len), advice),
            Call::Brk { addr } => Ok(self.set_brk(addr)),
            Call::Write { addr, .. } => return self.write(Vpn(addr / PAGE)),
            Call::Words { .. }
            | Call::Mremap { .. }
            | Call::Read { .. }
            | Call::Mincore { .. }
            | Call::Msync { .. }
            | Call::File(_)
            | Call::Mbind { .. } => {
                unreachable!("not a plain call")
            }
        };
        let listed = check(self.list.iter().copied());
        assert!(listed.is_ok(), "{} after {call}", listed.unwrap_err());
        done.map_or_else(CallResult::Error, CallResult::Value)
    }

    fn new_backing(&mut self) -> Backing {
        self.nr_backings += 1;
        Backing::Object(ObjectId::new(self.nr_backings).unwrap())
    }

    /// Place of the first mapping that ends after `vpn`.
    fn at(&self, vpn: Vpn) -> usize {
        self.list.partition_point(|attributes| attributes.range.end <= vpn)
    }

    fn holding(&self, vpn: Vpn) -> Option<usize> {
        let at = self.at(vpn);
        self.list.get(at).is_some_and(|attributes| attributes.range.contains(vpn)).then_some(at)
    }

    fn neighbours(&self, at: usize) -> (Option<VmaAttributes>, Option<VmaAttributes>) {
        (at.checked_sub(1).map(|before| self.list[before]), self.list.get(at + 1).copied())
    }

    fn is_free(&self, range: VpnRange) -> bool {
        self.list.iter().all(|attributes| !attributes.range.overlaps(range))
    }

    fn remove(&mut self, range: VpnRange) -> u64 {
        self.list = self.list.iter().flat_map(|attributes| cut(attributes, range)).flatten().collect();
        0
    }

    fn insert(&mut self, new: VmaAttributes, with_next: bool) {
        let at = self.at(new.range.start);
        let prev = at.checked_sub(1).map(|before| self.list[before]);
        let next = self.list.get(at).copied().filter(|_| with_next);
        let merged = merge(prev, new, next);
        let goes = at - merged.absorbs_prev as usize..at + merged.absorbs_next as usize;
        self.list.splice(goes, [merged.attributes]);
    }

    fn apply(&mut self, at: usize, change: Change) {
        if change.removes_vma {
            let goes = at - change.removes_prev as usize..at + 1 + change.removes_next as usize;
            self.list.splice(goes, change.puts());
        }
    }

    fn mmap(&mut self, hint: u64, len: u64, prot: Prot, flags: MapFlags) -> Result<u64, Errno> {
        let nr_pages = len.div_ceil(PAGE);
        let shared = flags.contains(MapFlags::SHARED);
        let start = if flags.intersects(MapFlags::FIXED | MapFlags::FIXED_NOREPLACE) {
            Vpn(hint / PAGE)
        } else {
            place(self, &self.placement(hint, nr_pages, flags)).ok_or(Errno::ENOMEM)?
        };
        let range = VpnRange::new(start, start.add(nr_pages));
        if flags.contains(MapFlags::FIXED_NOREPLACE) && !self.is_free(range) {
            return Err(Errno::EEXIST);
        }
        let mut asked = access(prot);
        asked.set(VmaFlags::NORESERVE, flags.contains(MapFlags::NORESERVE));
        asked.set(VmaFlags::NO_HUGE_PAGE, flags.contains(MapFlags::STACK));
        self.remove(range);
        let new = if shared {
            VmaAttributes::backed(
                range,
                asked | VmaFlags::SHARED | VmaFlags::MAY_ACCESS,
                self.new_backing(),
                0,
            )
        } else {
            VmaAttributes::anonymous(range, VmaFlags::new_anonymous(asked))
        };
        self.insert(new, true);
        if flags.contains(MapFlags::POPULATE) && asked.contains(VmaFlags::WRITE) {
            self.give_anon(self.at(start));
        }
        Ok(start.addr().0)
    }

    fn placement(&self, hint: u64, nr_pages: u64, flags: MapFlags) -> Placement {
        let page = |addr: u64| Vpn(addr / PAGE);
        let areas = Areas {
            user: VpnRange::new(Vpn(self.setting.min_addr.div_ceil(PAGE)), page(self.setting.task_end)),
            mmap_base: page(self.setting.mmap_base),
            legacy_base: page(self.setting.legacy_base),
        };
        let hint = areas.hint(VirtAddr(hint));
        let mut placement = areas.anywhere(hint, nr_pages);
        if flags.contains(MapFlags::LOW) {
            placement = areas.low(hint, nr_pages);
            // The host begins its search at random.
            placement.searches[0].as_mut().unwrap().window.start = page(self.setting.low.start);
        }
        if flags.contains(MapFlags::SHARED) { placement } else { placement.for_private_anonymous() }
    }

    fn mprotect(&mut self, range: VpnRange, access: VmaFlags) -> Result<u64, Errno> {
        let mut start = range.start;
        while start < range.end {
            let at = self.holding(start).ok_or(Errno::ENOMEM)?;
            let part = VpnRange::new(start, range.end.min(self.list[at].range.end));
            let (prev, next) = self.neighbours(at);
            let decided = protect(prev, &self.list[at], next, part, access).ok_or(Errno::EACCES)?;
            self.apply(at, decided.change);
            start = part.end;
        }
        Ok(0)
    }

    fn madvise(&mut self, range: VpnRange, number: i32) -> Result<u64, Errno> {
        let Some(advice) = flag_advice(number) else { return self.populate_write(range) };
        let (mut start, mut holes) = (range.start, Ok(0));
        while start < range.end {
            let at = self.at(start);
            let Some(attributes) =
                self.list.get(at).filter(|attributes| attributes.range.start < range.end).copied()
            else {
                return Err(Errno::ENOMEM);
            };
            if start < attributes.range.start {
                (start, holes) = (attributes.range.start, Err(Errno::ENOMEM));
            }
            if advice == FlagAdvice::WipeOnFork && !attributes.is_anonymous() {
                return Err(Errno::EINVAL);
            }
            let part = VpnRange::new(start, range.end.min(attributes.range.end));
            let (prev, next) = self.neighbours(at);
            self.apply(at, change(prev, &attributes, next, part, attributes.flags.advised(advice)));
            start = part.end;
        }
        holes
    }

    fn populate_write(&mut self, range: VpnRange) -> Result<u64, Errno> {
        for page in range.start.0..range.end.0 {
            let at = self.holding(Vpn(page)).ok_or(Errno::ENOMEM)?;
            if !self.list[at].flags.contains(VmaFlags::WRITE) {
                return Err(Errno::EINVAL);
            }
            self.give_anon(at);
        }
        Ok(0)
    }

    fn write(&mut self, vpn: Vpn) -> CallResult {
        let Some(at) = self.holding(vpn) else { return CallResult::Segv(Segv::Unmapped) };
        if !self.list[at].flags.contains(VmaFlags::WRITE) {
            return CallResult::Segv(Segv::Rights);
        }
        self.give_anon(at);
        CallResult::Written
    }

    /// The first private copy.
    fn give_anon(&mut self, at: usize) {
        let attributes = self.list[at];
        if attributes.anon.is_none() && !attributes.flags.contains(VmaFlags::SHARED) {
            let (prev, next) = self.neighbours(at);
            self.nr_anons += 1;
            self.list[at].anon = reusable_anon(prev, &attributes, next).unwrap_or(AnonId::new(self.nr_anons));
        }
    }

    fn set_brk(&mut self, wanted: u64) -> u64 {
        let (old, new) = (self.brk.next_multiple_of(PAGE), wanted.next_multiple_of(PAGE));
        let done = wanted >= self.setting.start_brk
            && if new < old {
                let mapped = !self.is_free(range(new, old));
                self.remove(range(new, old));
                mapped
            } else {
                new == old || self.is_free(range(old, new + PAGE)) && self.grow_heap(range(old, new))
            };
        if done {
            self.brk = wanted;
        }
        self.brk
    }

    fn grow_heap(&mut self, range: VpnRange) -> bool {
        let new = VmaAttributes::anonymous(range, VmaFlags::heap());
        if range.start.addr().0 > self.setting.start_brk {
            self.insert(new, false);
        } else {
            let at = self.at(range.start);
            self.list.insert(at, new);
        }
        true
    }

    fn map(&self) -> Vec<MapLine> {
        let mut seen = Vec::new();
        let inside = |attributes: &&VmaAttributes| {
            self.setting.windows.iter().any(|window| window.contains(&attributes.range.start.addr().0))
        };
        let line = |attributes: &VmaAttributes| {
            let object = attributes.backing.object().map(|backing| {
                let known = seen.iter().position(|&other| other == backing);
                let number = known.unwrap_or(seen.len());
                if known.is_none() {
                    seen.push(backing);
                }
                (number as u32, attributes.offset * PAGE)
            });
            let prot = Prot::from_bits_truncate((attributes.flags & VmaFlags::ACCESS).bits());
            MapLine {
                start: attributes.range.start.addr().0,
                end: attributes.range.end.addr().0,
                prot,
                object,
            }
        };
        self.list.iter().filter(inside).map(line).collect()
    }
}

impl Gaps for Decisions {
    fn lowest(&self, nr_pages: u64, window: VpnRange) -> Option<Vpn> {
        self.holes(window).into_iter().find(|hole| hole.len() >= nr_pages).map(|hole| hole.start)
    }
    fn highest(&self, nr_pages: u64, window: VpnRange) -> Option<Vpn> {
        let hole = self.holes(window).into_iter().rev().find(|hole| hole.len() >= nr_pages)?;
        Some(Vpn(hole.end.0 - nr_pages))
    }
}

impl Decisions {
    fn holes(&self, window: VpnRange) -> Vec<VpnRange> {
        let ends = self.list.iter().map(|attributes| attributes.range.end);
        let guard = |attributes: &VmaAttributes| {
            if attributes.flags.contains(VmaFlags::GROWS_DOWN) { GUARD_PAGES } else { 0 }
        };
        let starts = self
            .list
            .iter()
            .map(|attributes| Vpn(attributes.range.start.0.saturating_sub(guard(attributes))));
        let holes = std::iter::once(Vpn(0)).chain(ends).zip(starts.chain([window.end]));
        holes.map(|(start, end)| VpnRange::new(start, end.max(start)).intersect(window)).collect()
    }
}
