//! A random state in which two operations are done, and whether they commute there.

use super::operation::{AREA_PAGES, Act, Distance, HEAP_PAGES, HOLE, MOST_PAGES, Operation};
use crate::calls::{Call, CallResult, Errno, HUGE_BYTES, MapFlags, MapLine, PAGE, PageState, Prot, advice};
use crate::model::Spaces;
use crate::setting::{InheritedZeroPages, Setting};
use interleaf_lab::rng::Rng;

/// The 1 GiB in which areas begin.
const BASE: u64 = (16 << 40) + (8 << 30);
/// Where mappings lie that stay.
const NEIGHBOURS: u64 = BASE + (64 << 30);

const BOTH: Prot = Prot::READ.union(Prot::WRITE);

/// What is there before, and what is done.
pub(super) struct State {
    /// What each CPU calls first, CPU 0 first.
    pub(super) before: [Vec<Call>; 2],
    /// What each does then.
    pub(super) acts: [Act; 2],
    /// Spaces that the CPUs run: one, or one each.
    pub(super) spaces: usize,
    areas: [u64; 2],
}

/// The setting of all runs: nothing is refused for lack of memory.
pub(super) fn setting() -> Setting {
    Setting { memory_pages: 1 << 40, zero_pages: InheritedZeroPages::Everywhere, ..Setting::default() }
}

impl State {
    /// The state of a seed. Which CPU does which of the two, and so which comes first, is part of it.
    pub(super) fn of_seed(mut pair: [Operation; 2], distance: Distance, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        if rng.chance(1, 2) {
            pair.reverse();
        }
        let table = BASE + rng.below(256) * HUGE_BYTES;
        let first = table + rng.below(512 - 2 * AREA_PAGES - 1) * PAGE;
        let areas = [first, first + distance.bytes()];
        let heap = setting().start_brk;
        let acts = [0, 1].map(|cpu| pair[cpu].act(cpu, areas[cpu], 1 + rng.below(MOST_PAGES), heap));
        let spaces = if distance == Distance::OtherSpace { 2 } else { 1 };
        let mut draw = Draw { rng, distance, areas, pair, calls: Default::default(), spaces };
        draw.map(heap);
        draw.touch();
        draw.protect();
        Self { before: draw.calls, acts, spaces, areas }
    }

    /// The space that a CPU runs.
    pub(super) fn space_of(&self, cpu: usize) -> usize {
        cpu.min(self.spaces - 1)
    }

    /// What each operation answers, CPU 0's first; none if the order of the two is visible in answers, maps
    /// or pages.
    pub(super) fn commuting_answers(&self) -> Option<[CallResult; 2]> {
        let mut model = Spaces::new(&setting(), self.spaces);
        for cpu in 0..2 {
            for call in &self.before[cpu] {
                model.call(self.space_of(cpu), call);
            }
        }
        let (first, second) = (self.carried_out(model.clone(), [0, 1]), self.carried_out(model, [1, 0]));
        (first == second).then_some(first.answers)
    }

    fn carried_out(&self, mut model: Spaces, order: [usize; 2]) -> Seen {
        let mut answers = [CallResult::Value(0), CallResult::Value(0)];
        let mut children = [None, None];
        for cpu in order {
            let space = self.space_of(cpu);
            answers[cpu] = match self.acts[cpu] {
                Act::Call(call) => model.call(space, &call),
                Act::Pin { addr, pages } => {
                    let (len, advice) = (pages * PAGE, advice::POPULATE_WRITE);
                    match model.call(space, &Call::Madvise { addr, len, advice }) {
                        CallResult::Error(_) => CallResult::Error(Errno::EFAULT),
                        pinned => pinned,
                    }
                }
                Act::Fork => {
                    children[cpu] = Some(model.fork(space).expect("there is memory"));
                    CallResult::Value(0)
                }
            };
        }
        let all = (0..self.spaces).chain(children.into_iter().flatten());
        let spaces = all.map(|space| (model.map(space), self.pages(&model, space))).collect();
        Seen { answers, spaces }
    }

    /// The pages that an operation can have changed.
    fn pages(&self, model: &Spaces, space: usize) -> Pages {
        let heap = setting().start_brk;
        let starts = self.areas.into_iter().chain([heap]);
        let looked_at = starts.flat_map(|start| (0..AREA_PAGES).map(move |page| start + page * PAGE));
        looked_at.filter_map(|addr| Some((addr, model.page(space, addr)?))).collect()
    }
}

/// Pages by their addresses.
type Pages = Vec<(u64, PageState)>;

/// All that is seen of two operations.
#[derive(PartialEq)]
struct Seen {
    answers: [CallResult; 2],
    spaces: Vec<(Vec<MapLine>, Pages)>,
}

/// Draws a state.
struct Draw {
    rng: Rng,
    distance: Distance,
    areas: [u64; 2],
    pair: [Operation; 2],
    calls: [Vec<Call>; 2],
    spaces: usize,
}

impl Draw {
    /// The CPUs that set up what their space has: both where each has one.
    fn owners(&self) -> std::ops::Range<usize> {
        0..self.spaces
    }

    /// The kind of memory: accesses say theirs, calls get any.
    fn kind(&mut self) -> MapFlags {
        let is_random = !self.pair.iter().any(|operation| operation.is_access());
        let is_shared = self.pair.contains(&Operation::Shared) || is_random && self.rng.chance(1, 4);
        if is_shared { MapFlags::SHARED } else { MapFlags::PRIVATE }
    }

    fn map(&mut self, heap: u64) {
        let kind = self.kind();
        let flags = kind | MapFlags::ANONYMOUS | MapFlags::FIXED;
        let map = |start: u64, end: u64| Call::Mmap { hint: start, len: end - start, prot: BOTH, flags };
        let neighbours = self.rng.pick(&[0, 3, 24]);
        let is_one = self.spaces == 1 && self.rng.chance(1, 2);
        let [first, second] = self.areas;
        for owner in self.owners() {
            let neighbour = |n: u64| map(NEIGHBOURS + 2 * n * PAGE, NEIGHBOURS + (2 * n + 1) * PAGE);
            let calls = &mut self.calls[owner];
            calls.extend((0..neighbours).map(neighbour));
            calls.push(Call::Brk { addr: heap + HEAP_PAGES * PAGE });
            calls.push(Call::Write { addr: heap + PAGE, value: 7 });
            if is_one {
                calls.push(map(first, second + AREA_PAGES * PAGE));
            } else {
                // A page less, so that areas side by side are two mappings.
                let area = |start| map(start, start + (AREA_PAGES - 1) * PAGE);
                calls.extend([first, second].map(area));
            }
        }
        let pair = self.pair;
        for (area, operation) in self.areas.into_iter().zip(pair) {
            if operation == Operation::Map {
                let (addr, len) = (area + HOLE.start * PAGE, (HOLE.end - HOLE.start) * PAGE);
                self.owners().for_each(|owner| self.calls[owner].push(Call::Munmap { addr, len }));
            }
        }
    }

    /// Each CPU links the tables of its area, and reads or writes some pages there. CPU 1, which is set up
    /// second, may be the one that touches those of both.
    fn touch(&mut self) {
        if self.distance == Distance::NewTables {
            return;
        }
        let is_crossed = self.spaces == 1 && self.rng.chance(1, 4);
        for area in 0..2 {
            let cpu = if is_crossed { 1 } else { area };
            let start = self.areas[area];
            let anchor = start / HUGE_BYTES * HUGE_BYTES + HUGE_BYTES - PAGE;
            let flags = MapFlags::PRIVATE | MapFlags::ANONYMOUS | MapFlags::FIXED_NOREPLACE;
            self.calls[area].extend([
                Call::Mmap { hint: anchor, len: PAGE, prot: BOTH, flags },
                Call::Write { addr: anchor, value: 9 },
            ]);
            // What accesses find is theirs to say.
            let is_free = !self.pair.iter().any(|operation| operation.is_access());
            for page in u64::from(!is_free)..AREA_PAGES {
                let addr = start + page * PAGE;
                match self.rng.below(4) {
                    0 => self.calls[cpu].push(Call::Read { addr }),
                    1 => self.calls[cpu].push(Call::Write { addr, value: 100 + page as u8 }),
                    _ => {}
                }
            }
            if self.pair[area] == Operation::Upgrade {
                self.calls[area].push(Call::Read { addr: start });
            }
        }
    }

    /// Sometimes an area may only be read; that of an access as it says.
    fn protect(&mut self) {
        for (area, operation) in self.areas.into_iter().zip(self.pair) {
            let is_random = !operation.is_access() && self.rng.chance(1, 4);
            if operation == Operation::Refused || is_random {
                let forbid = Call::Mprotect { addr: area, len: MOST_PAGES * PAGE, prot: Prot::READ };
                self.owners().for_each(|owner| self.calls[owner].push(forbid));
            }
        }
    }
}
