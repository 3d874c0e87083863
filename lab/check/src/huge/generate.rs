//! Random calls on an arena of several huge pages.
//!
//! Ranges begin and end at borders of huge pages, a few pages beside them, or anywhere; most calls are such
//! that a huge page can come, be cut, go, and come again. The kinds of call that a sequence has are drawn for
//! it, as [`crate::generate`] does.

use crate::calls::{Call, HUGE_BYTES, MapFlags, PAGE, Prot, advice};
use crate::setting::{HUGE_REGIONS, Setting};
use interleaf::vma::HugePolicy;
use interleaf_lab::rng::Rng;
use std::ops::Range;

/// The kinds of call, with how often each is drawn.
const KINDS: [(u64, Kind); 10] = [
    (14, Kind::Map),
    (8, Kind::Unmap),
    (10, Kind::Protect),
    (12, Kind::AdvisePages),
    (8, Kind::AdviseHuge),
    (4, Kind::AdviseFork),
    (5, Kind::Collapse),
    (4, Kind::Mincore),
    (12, Kind::Read),
    (24, Kind::Write),
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Map,
    Unmap,
    Protect,
    AdvisePages,
    AdviseHuge,
    AdviseFork,
    Collapse,
    Mincore,
    Read,
    Write,
}

const BOTH: Prot = Prot::READ.union(Prot::WRITE);
const PRIVATE: MapFlags = MapFlags::PRIVATE.union(MapFlags::ANONYMOUS);

/// The parameters of one sequence.
struct Habits<'a> {
    rng: Rng,
    setting: &'a Setting,
    /// One in this number of ranges lies anywhere.
    anywhere: u64,
    /// One in this number of mappings is not like the others.
    strange: u64,
    /// Whether there is shared memory. It has no MADV_COLLAPSE then, which Linux carries out there.
    shares: bool,
}

/// A sequence of at most `longest` calls that `setting` admits, reproducible from `seed`.
#[must_use]
pub fn huge_sequence(seed: u64, longest: u64, setting: &Setting) -> Vec<Call> {
    let mut rng = Rng::new(seed);
    let length = 3 + rng.below(longest.saturating_sub(2).max(1));
    let mut weights = KINDS;
    for (weight, kind) in &mut weights {
        if !matches!(kind, Kind::Map | Kind::Write) && rng.chance(1, 4) {
            *weight = 0;
        }
    }
    let shares = rng.chance(1, 4);
    weights
        .iter_mut()
        .filter(|(_, kind)| shares && *kind == Kind::Collapse)
        .for_each(|(weight, _)| *weight = 0);
    let (anywhere, strange) = (rng.pick(&[4, 12, 100]), rng.pick(&[6, 20, 1000]));
    let mut habits = Habits { rng, setting, anywhere, strange, shares };
    let mut calls = habits.beginning();
    while (calls.len() as u64) < length {
        let kind = habits.rng.weighted(&weights);
        let call = habits.call(kind);
        if setting.admits(&call) {
            calls.push(call);
        }
    }
    calls
}

impl Habits<'_> {
    /// Mostly a mapping of the whole arena, where huge pages may be.
    fn beginning(&mut self) -> Vec<Call> {
        let Range { start, end } = self.setting.huge_arena();
        let (len, mut calls) = (end - start, Vec::new());
        if self.rng.chance(3, 4) {
            let flags = PRIVATE | MapFlags::FIXED;
            calls.push(Call::Mmap { hint: start, len, prot: BOTH, flags });
        }
        if self.setting.huge.policy == HugePolicy::Madvise && self.rng.chance(3, 4) {
            calls.push(Call::Madvise { addr: start, len, advice: advice::HUGEPAGE });
        }
        calls
    }

    fn call(&mut self, kind: Kind) -> Call {
        match kind {
            Kind::Map => self.map(),
            Kind::Unmap => {
                let (addr, len) = self.range();
                Call::Munmap { addr, len }
            }
            Kind::Protect => {
                let (addr, len) = self.range();
                let prot = self.rng.pick(&[Prot::READ, Prot::empty(), Prot::WRITE, BOTH, BOTH, BOTH]);
                Call::Mprotect { addr, len, prot }
            }
            Kind::AdvisePages => {
                let (addr, len) = self.range();
                let advice = self.rng.weighted(&[
                    (6, advice::DONTNEED),
                    (3, advice::FREE),
                    (2, advice::POPULATE_READ),
                    (2, advice::POPULATE_WRITE),
                ]);
                Call::Madvise { addr, len, advice }
            }
            Kind::AdviseHuge => {
                let (addr, len) = self.range();
                let advice = self.rng.weighted(&[(3, advice::HUGEPAGE), (2, advice::NOHUGEPAGE)]);
                Call::Madvise { addr, len, advice }
            }
            Kind::AdviseFork => {
                let (addr, len) = self.range();
                let all = [
                    advice::WIPEONFORK,
                    advice::KEEPONFORK,
                    advice::DONTFORK,
                    advice::DOFORK,
                    advice::DONTDUMP,
                    advice::DODUMP,
                    advice::SEQUENTIAL,
                    advice::NORMAL,
                ];
                Call::Madvise { addr, len, advice: self.rng.pick(&all) }
            }
            Kind::Collapse => {
                let (addr, len) = self.range();
                Call::Madvise { addr, len, advice: advice::COLLAPSE }
            }
            Kind::Mincore => {
                let (addr, len) = self.range();
                Call::Mincore { addr, len }
            }
            Kind::Read => Call::Read { addr: self.byte() },
            Kind::Write => Call::Write { addr: self.byte(), value: self.rng.below(256) as u8 },
        }
    }

    fn map(&mut self) -> Call {
        let (addr, len) = self.range();
        let mut flags = PRIVATE;
        if self.rng.chance(1, self.strange) {
            let others = [PRIVATE | MapFlags::NORESERVE, PRIVATE | MapFlags::STACK];
            let shared = MapFlags::SHARED | MapFlags::ANONYMOUS;
            flags = if self.shares { shared } else { self.rng.pick(&others) };
        }
        flags |= self.rng.weighted(&[
            (8, MapFlags::FIXED),
            (1, MapFlags::FIXED_NOREPLACE),
            (2, MapFlags::empty()),
        ]);
        if self.rng.chance(1, 12) {
            flags |= MapFlags::POPULATE;
        }
        let is_fixed = flags.intersects(MapFlags::FIXED | MapFlags::FIXED_NOREPLACE);
        let hint = if is_fixed || self.rng.chance(1, 2) { addr } else { 0 };
        let prot = self.rng.weighted(&[(8, BOTH), (1, Prot::READ), (1, Prot::empty())]);
        Call::Mmap { hint, len, prot, flags }
    }

    /// A range of pages of the arena.
    fn range(&mut self) -> (u64, u64) {
        let (one, other) = (self.border(), self.border());
        let (start, end) = if one <= other { (one, other) } else { (other, one) };
        let len = if start == end { PAGE } else { end - start };
        let arena_end = self.setting.huge_arena().end;
        (start.min(arena_end - PAGE), len.min(arena_end - start.min(arena_end - PAGE)))
    }

    /// Where a range begins or ends.
    fn border(&mut self) -> u64 {
        let Range { start, end } = self.setting.huge_arena();
        if self.rng.chance(1, self.anywhere) {
            return start + self.rng.below((end - start) / PAGE) * PAGE;
        }
        let border = start + self.rng.below(HUGE_REGIONS + 1) * HUGE_BYTES;
        let beside = self.rng.weighted(&[(6, 0), (1, PAGE), (1, 7 * PAGE), (1, 256 * PAGE)]);
        let at = if self.rng.chance(1, 2) { border + beside } else { border - beside };
        at.clamp(start, end)
    }

    /// A byte to touch.
    fn byte(&mut self) -> u64 {
        let Range { start, end } = self.setting.huge_arena();
        let page = match self.rng.below(3) {
            0 => self.border(),
            1 => start + self.rng.below(HUGE_REGIONS) * HUGE_BYTES,
            _ => start + self.rng.below((end - start) / PAGE) * PAGE,
        };
        page.min(end - PAGE) + self.rng.pick(&[0, 0, 1, 2048, PAGE - 1])
    }
}
