//! Random sequences of memory calls, weighted towards edge cases.
//!
//! Most calls meet in a few dozen pages, so that ranges touch, overlap, split and cover one another; some
//! arguments are unaligned, overflowing, empty or huge. In each sequence some kinds of call are switched off
//! at random: a case that needs, say, many mappings and no unmap would otherwise hardly ever occur. And each
//! sequence has a theme: merging turns on which page was written first, and the limits of memory are met only
//! by ranges that are vast.

use super::calls::{Call, MapFlags, PAGE, Prot, advice};
use super::huge::huge_sequence;
use super::setting::{ARENA_PAGES, Setting};
use interleaf_lab::rng::Rng;

/// The kinds of call, with how often each is drawn.
const KINDS: [(u64, Kind); 11] = [
    (26, Kind::Map),
    (10, Kind::Unmap),
    (14, Kind::Remap),
    (18, Kind::Protect),
    (12, Kind::AdvisePages),
    (5, Kind::AdviseFlags),
    (6, Kind::Policy),
    (6, Kind::Break),
    (6, Kind::Mincore),
    (10, Kind::Read),
    (18, Kind::Write),
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Map,
    Unmap,
    Remap,
    Protect,
    AdvisePages,
    AdviseFlags,
    Policy,
    Break,
    Mincore,
    Read,
    Write,
}

/// What a sequence is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Theme {
    /// Everything.
    Mixture,
    /// Few pages that are mapped, written and protected one or two at a time.
    Identity,
    /// Ranges about as long as memory is large, at the start of the main window.
    Vast,
}

/// The parameters of one sequence.
struct Habits<'a> {
    rng: Rng,
    setting: &'a Setting,
    theme: Theme,
    /// Pages of the arena in use: few, so that calls meet.
    pages: u64,
    /// One in this number of arguments is odd.
    odd: u64,
    /// Rights that mappings of this sequence mostly have.
    prots: Vec<Prot>,
    /// Mapping flags in use.
    kinds: Vec<MapFlags>,
}

/// A sequence of at most `longest` calls that `setting` admits, reproducible from `seed`; in a setting with
/// huge pages, on an arena of several of them.
#[must_use]
pub fn sequence(seed: u64, longest: u64, setting: &Setting) -> Vec<Call> {
    if !setting.huge.is_never() {
        return huge_sequence(seed, longest, setting);
    }
    let mut rng = Rng::new(seed);
    let length = 2 + rng.below(longest - 1);
    let theme = rng.weighted(&[(5, Theme::Mixture), (4, Theme::Identity), (1, Theme::Vast)]);
    let mut weights = KINDS;
    for (weight, kind) in &mut weights {
        let beside = !matches!(kind, Kind::Map | Kind::Protect | Kind::Write | Kind::Unmap);
        if *kind != Kind::Map && rng.chance(1, if theme == Theme::Identity && beside { 2 } else { 4 }) {
            *weight = 0;
        }
    }
    let mut habits = Habits::new(rng, setting, theme);
    let mut calls = Vec::new();
    while (calls.len() as u64) < length {
        let kind = habits.rng.weighted(&weights);
        let call = habits.call(kind);
        if setting.admits(&call) {
            calls.push(call);
        }
    }
    calls
}

impl<'a> Habits<'a> {
    fn new(mut rng: Rng, setting: &'a Setting, theme: Theme) -> Self {
        let (r, w, x) = (Prot::READ, Prot::WRITE, Prot::EXEC);
        let all = [Prot::empty(), r, w, r | w, r | x, r | w | x];
        let prots = (0..1 + rng.below(3)).map(|_| rng.pick(&all)).chain([r | w]).collect();
        let shared = MapFlags::SHARED;
        let private = MapFlags::PRIVATE;
        let all = [
            private,
            private | MapFlags::NORESERVE,
            shared,
            shared | MapFlags::NORESERVE,
            private | MapFlags::STACK,
        ];
        let kinds = (0..1 + rng.below(2)).map(|_| rng.pick(&all)).chain([private]).collect();
        let (pages, odd) = match theme {
            Theme::Mixture => (rng.pick(&[6, 12, 24, ARENA_PAGES]), rng.pick(&[8, 30, 1000])),
            Theme::Identity => (rng.pick(&[3, 5, 8]), 1000),
            Theme::Vast => (rng.pick(&[3, 6]), 100),
        };
        Self { rng, setting, theme, pages, odd, prots, kinds }
    }

    fn call(&mut self, kind: Kind) -> Call {
        match kind {
            Kind::Map => self.map(),
            Kind::Unmap => {
                let (addr, len) = self.range();
                Call::Munmap { addr, len }
            }
            Kind::Remap => self.mremap(),
            Kind::Protect => {
                let ((addr, len), prot) = (self.range(), self.prot());
                Call::Mprotect { addr, len, prot }
            }
            Kind::AdvisePages => {
                let (addr, len) = self.range();
                Call::Madvise { addr, len, advice: self.page_advice() }
            }
            Kind::AdviseFlags => {
                let (addr, len) = self.range();
                let (advice, _) = self.rng.pick(advice::NAMES);
                Call::Madvise { addr, len, advice }
            }
            Kind::Policy => self.mbind(),
            Kind::Break => Call::Brk { addr: self.new_break() },
            Kind::Mincore => {
                let (addr, len) = self.range();
                Call::Mincore { addr, len }
            }
            Kind::Read => Call::Read { addr: self.byte() },
            Kind::Write => Call::Write { addr: self.byte(), value: 1 + self.rng.below(255) as u8 },
        }
    }

    fn map(&mut self) -> Call {
        let (addr, len) = self.range();
        let mut flags = self.rng.pick(&self.kinds) | MapFlags::ANONYMOUS;
        let manner = self.rng.weighted(&[
            (60, MapFlags::FIXED),
            (12, MapFlags::FIXED_NOREPLACE),
            (30, MapFlags::empty()),
            (4, MapFlags::LOW),
            (1, MapFlags::LOW | MapFlags::FIXED),
        ]);
        flags |= manner;
        if self.rng.chance(1, if self.theme == Theme::Mixture { 8 } else { 30 }) {
            flags |= MapFlags::POPULATE;
        }
        if self.odd() {
            flags ^= self.rng.pick(&[MapFlags::SHARED, MapFlags::PRIVATE, MapFlags::ANONYMOUS]);
        }
        let free_choice = !manner.intersects(MapFlags::FIXED | MapFlags::FIXED_NOREPLACE);
        let hint = if free_choice && self.rng.chance(1, 2) { 0 } else { addr };
        let len = if free_choice && self.rng.chance(1, 8) { self.large_len() } else { len };
        Call::Mmap { hint, len, prot: self.prot(), flags }
    }

    /// Mostly of whole mappings, to a place among the others.
    fn mremap(&mut self) -> Call {
        let (addr, old_len) = self.range();
        let (to, other_len) = self.range();
        let new_len = if self.rng.chance(1, 2) { old_len } else { other_len };
        let old_len = if self.rng.chance(1, 16) { 0 } else { old_len };
        let mut flags = self.rng.weighted(&[(2, 0), (6, 1), (8, 3), (3, 5), (4, 7)]);
        if self.odd() {
            flags = self.rng.pick(&[2, 4, 6, 8, 1 | 1 << 40, u64::MAX]);
        }
        Call::Mremap { addr, old_len, new_len, flags, to }
    }

    /// Mostly one of a few policies, so that neighbours get the same. Only node 0 has memory.
    fn mbind(&mut self) -> Call {
        let (addr, len) = self.range();
        let (mut mode, mut nodes) = self.rng.weighted(&[
            (6, (0, 0)),
            (4, (4, 0)),
            (1, (1, 0)),
            (2, (1, 1)),
            (4, (2, 1)),
            (1, (2, 0x21)),
            (2, (3, 1)),
            (1, (5, 1)),
            (1, (6, 1)),
            (1, (0x8002, 1)),
            (1, (0x8002, 0x21)),
            (1, (0x4002, 0x20)),
            (1, (0x2002, 1)),
        ]);
        if self.odd() {
            mode = self.rng.pick(&[0, 1, 2, 3, 4, 5, 6, 7, 99, u32::MAX, 0x1000, 1 << 16]);
            mode |= self.rng.pick(&[0, 0, 0x2000, 0x4000, 0x8000, 0xc000]);
            nodes = self.rng.pick(&[0, 1, 2, 3, 0x20]);
        }
        // What a strict call finds in shared memory depends on which entries there are: it names node 0.
        let strict = if nodes & 1 == 1 || nodes == 0 && mode == 0 { 1 } else { 0 };
        let mut flags = self.rng.weighted(&[(8, 0), (2, strict), (1, strict | 2), (1, 2)]);
        if self.odd() {
            flags = self.rng.pick(&[4, 7, 8, 16, 1 << 31]);
        }
        Call::Mbind { addr, len, mode, nodes, flags }
    }

    fn prot(&mut self) -> Prot {
        if self.odd() {
            // Unknown bits, and the two that only growing mappings take. Execute alone is left out: what it
            // means depends on whether the CPU has protection keys.
            let odd = self.rng.pick(&[8, 16, 0x0100_0000, 0x0200_0000, 0x0300_0000, 0x8000_0000]);
            return Prot::READ | Prot::from_bits_retain(odd);
        }
        self.rng.pick(&self.prots)
    }

    fn page_advice(&mut self) -> i32 {
        if self.odd() {
            return self.rng.pick(&[-1, 5, 6, 7, 99, 1000]);
        }
        self.rng.weighted(&[
            (6, advice::DONTNEED),
            (2, advice::FREE),
            (3, advice::POPULATE_READ),
            (3, advice::POPULATE_WRITE),
            (1, advice::WILLNEED),
        ])
    }

    /// Mostly whole pages of the arena.
    fn range(&mut self) -> (u64, u64) {
        let start = self.page();
        let longest = match self.theme {
            Theme::Identity => self.rng.pick(&[1, 1, 2, self.pages]),
            _ => self.rng.pick(&[1, 2, 4, 8, self.pages]),
        };
        let mut len = (1 + self.rng.below(longest)) * PAGE;
        if self.theme == Theme::Vast && self.rng.chance(1, 2) {
            len += self.setting.memory_pages * PAGE - self.rng.below(self.pages) * PAGE;
        }
        let mut addr = start;
        if self.odd() {
            addr = self.odd_addr(addr);
        }
        if self.odd() {
            let to_wrap = addr.wrapping_neg();
            let past_end = self.setting.task_end.wrapping_sub(addr);
            let some = self.rng.below(2 * PAGE);
            len = self.rng.pick(&[
                0,
                1,
                len - 1,
                len + 1,
                u64::MAX,
                u64::MAX - PAGE,
                to_wrap,
                past_end,
                past_end + 1,
                some,
            ]);
        } else if addr < self.setting.windows[1].end {
            len = len.min(self.setting.windows[1].end - addr);
        }
        (addr, len)
    }

    /// The first byte of a page, mostly in the arena.
    fn page(&mut self) -> u64 {
        let [low, main] = &self.setting.windows;
        let arena = self.setting.arena();
        let page = self.rng.below(self.pages);
        if self.theme == Theme::Vast {
            return main.start + page * PAGE;
        }
        match self.rng.below(24) {
            0 => low.start + page * PAGE,
            1 => main.start + page * PAGE,
            2 | 3 => self.setting.start_brk + page * PAGE,
            _ => arena.end - (1 + page) * PAGE,
        }
    }

    /// A byte to touch.
    fn byte(&mut self) -> u64 {
        let page = self.page();
        if self.odd() {
            return self.rng.pick(&[
                self.setting.task_end,
                1 << 47,
                1 << 63,
                u64::MAX,
                !0 << 47,
                page + PAGE - 1,
            ]);
        }
        page + self.rng.below(4)
    }

    fn odd_addr(&mut self, addr: u64) -> u64 {
        let end = self.setting.task_end;
        self.rng.pick(&[
            addr + 1,
            addr + PAGE - 1,
            0,
            PAGE,
            end,
            end - PAGE,
            end + PAGE,
            1 << 63,
            !0 << 47,
            !(PAGE - 1),
        ])
    }

    /// Lengths that Linux treats specially: huge pages, all of memory, all of the address space.
    fn large_len(&mut self) -> u64 {
        let huge = 2 << 20;
        let memory = self.setting.memory_pages * PAGE;
        let window = self.setting.windows[1].end - self.setting.windows[1].start;
        let end = self.setting.task_end;
        self.rng.pick(&[
            huge,
            2 * huge,
            huge + PAGE,
            huge - PAGE,
            memory,
            memory + PAGE,
            memory / 2,
            window,
            window - PAGE,
            end,
            end + 1,
        ])
    }

    fn new_break(&mut self) -> u64 {
        let heap = self.setting.start_brk;
        if self.odd() {
            let far = heap + self.setting.memory_pages * PAGE + PAGE;
            return self.rng.pick(&[0, heap - 1, heap, far, self.setting.task_end, u64::MAX, 1 << 63]);
        }
        let odd_bytes = self.rng.pick(&[0, 0, 1, 100, PAGE - 1]);
        heap + self.rng.below(self.pages) * PAGE + odd_bytes
    }

    fn odd(&mut self) -> bool {
        self.rng.chance(1, self.odd)
    }
}
