//! What a task does in a round, and what it must find.

use super::{ActiveSpace, Machine, Space, StressRun};
use crate::drive::Faults;
use interleaf::machine::Format;
use interleaf::space::{Advice, Error, FaultError, MapRequest, Place, Sharing};
use interleaf::units::VirtAddr;
use interleaf::vma::VmaFlags;
use interleaf_lab::machine::soft::{SwitchNotifier, with_switch_notifier};
use interleaf_lab::rng::Rng;
use std::cell::{Cell, RefCell};

const PAGE: u64 = 4096;
/// Pages of a task's own.
const PAGES: u64 = 24;
/// Pages that any task changes, in a table of their own and across its end.
const CONTESTED: Area = Area { start: (16 << 40) + (8 << 30) - 16 * PAGE, pages: 32, mark: 0xC0DE };
/// Shared memory that every space maps in the same place.
const OBJECT: Area = Area { start: (16 << 40) + (9 << 30), pages: 16, mark: 0x0B1E };
/// Rights that contested pages get.
const RIGHTS: [VmaFlags; 3] = [VmaFlags::empty(), VmaFlags::READ, VmaFlags::READ.union(VmaFlags::WRITE)];

/// Memory in which each page holds zero or one word of its own.
#[derive(Clone, Copy)]
struct Area {
    start: u64,
    pages: u64,
    mark: u64,
}

impl Area {
    fn page(self, page: u64) -> VirtAddr {
        VirtAddr(self.start + page * PAGE)
    }

    /// The word that belongs to a page.
    fn word(self, page: u64) -> u64 {
        self.mark << 48 | page
    }

    /// A part of it: address and bytes.
    fn part(self, rng: &mut Rng) -> (VirtAddr, u64) {
        let first = rng.below(self.pages);
        (self.page(first), PAGE * (1 + rng.below((self.pages - first).min(8))))
    }
}

/// Maps the object in all spaces, and writes its first page. The calling CPU runs the shared space.
pub(super) fn set_up<F: Format>(
    machine: &Machine<F>,
    shared: &Space<'_, F>,
    own: &[Space<'_, F>],
) -> Result<(), String> {
    shared.map(&object_request()).map_err(|error| error.to_string())?;
    for own in own {
        map_again(own, shared)?;
    }
    let wrote = machine.write_u64(OBJECT.page(0), OBJECT.word(0), &Faults::new(shared));
    wrote.map_err(|signal| signal.to_string())
}

/// Maps the object, which one space has mapped, in another.
fn map_again<F: Format>(space: &Space<'_, F>, other: &Space<'_, F>) -> Result<(), String> {
    let Some((object, first)) = other.object_at(OBJECT.page(0)) else { return Err("no object".into()) };
    must(space.map(&object_request().backed_by(object.at_page(first)))).map(drop)
}

fn object_request() -> MapRequest<'static> {
    let request = MapRequest::anonymous(OBJECT.pages * PAGE);
    MapRequest { place: Place::Fixed(OBJECT.page(0)), sharing: Sharing::Shared, ..request }
}

/// A task on its CPU.
pub(super) struct Task<'a, 'v, F: Format> {
    run: &'a StressRun<'a, 'v, F>,
    own: &'a Space<'v, F>,
    index: u64,
    rng: Rng,
    round: u64,
    turns: Cell<u64>,
}

/// A space as its task's switch, loaded while the task has its CPU; counts how often the task gives it up.
struct Turns<'a, 'v, F: Format> {
    space: &'a Space<'v, F>,
    active: RefCell<Option<ActiveSpace<'a, 'v, F>>>,
    count: Cell<u64>,
}

impl<F: Format> SwitchNotifier for Turns<'_, '_, F> {
    fn sched_out(&self) {
        self.count.set(self.count.get() + 1);
        self.active.take();
    }

    fn sched_in(&self) {
        self.active.replace(Some(self.space.activate(None)));
    }
}

impl<'a, 'v, F: Format> Task<'a, 'v, F> {
    pub fn new(run: &'a StressRun<'a, 'v, F>, own: &'a Space<'v, F>, index: usize) -> Self {
        let rng = Rng::new(run.config.seed.wrapping_mul(1009).wrapping_add(index as u64));
        Self { run, own, index: index as u64, rng, round: 0, turns: Cell::new(0) }
    }

    /// Rounds until there are enough. Says how many, and how often the CPU was given up.
    pub fn work(&mut self) -> Result<(u64, u64), String> {
        let shared = self.run.shared;
        let mut active = shared.activate(None);
        let mut result = Ok(());
        while result.is_ok() && self.run.goes_on(self.round) {
            result = match self.rng.below(8) {
                0 => {
                    let done;
                    (active, done) = self.visit_own(self.own.activate(Some(active)));
                    active = shared.activate(Some(active));
                    done
                }
                kind => {
                    let done;
                    (active, done) = self.in_space(active, |task| match kind {
                        1 | 2 => task.own_pages(shared),
                        3 => task.object(),
                        4 => task.heap(),
                        _ => task.contested(),
                    });
                    done
                }
            };
            self.round += 1;
        }
        drop(active);
        let round = self.round;
        result.map_err(|wrong| format!("round {round}: {wrong}"))?;
        Ok((self.round, self.turns.get()))
    }

    /// What a task does in its own space, which its CPU runs.
    fn visit_own(&mut self, active: ActiveSpace<'a, 'v, F>) -> (ActiveSpace<'a, 'v, F>, Result<(), String>) {
        let own = self.own;
        self.in_space(active, |task| {
            let shown = task.read(own, OBJECT.page(0))?;
            expect(shown == Some(OBJECT.word(0)), || format!("the object's first page shows {shown:x?}"))?;
            task.touch(own, OBJECT)?;
            task.own_pages(own)
        })
    }

    /// A task that gives up the CPU meanwhile takes it out of the space first, else no thread would answer
    /// its interrupts.
    fn in_space<R>(
        &mut self,
        active: ActiveSpace<'a, 'v, F>,
        f: impl FnOnce(&mut Self) -> R,
    ) -> (ActiveSpace<'a, 'v, F>, R) {
        let turns = Turns { space: active.space(), active: RefCell::new(Some(active)), count: Cell::new(0) };
        let result = with_switch_notifier(&turns, || f(self));
        self.turns.set(self.turns.get() + turns.count.get());
        (turns.active.into_inner().expect("the task has its CPU again"), result)
    }

    /// Maps, writes, protects, drops and unmaps pages that no other task touches.
    fn own_pages(&mut self, space: &Space<'v, F>) -> Result<(), String> {
        let start = must(space.map(&MapRequest::anonymous(PAGES * PAGE)))?;
        let at = |page: u64| VirtAddr(start.0 + page * PAGE);
        let (index, round) = (self.index, self.round);
        let word = |page: u64| 1 + (index << 48 | round << 16 | page);
        self.verify(space, start, |_| 0)?;
        for page in 0..PAGES {
            let wrote = self.write(space, at(page), word(page))?;
            expect(wrote, || format!("page {page} of {start:?} cannot be written"))?;
        }
        must(space.protect(start, PAGES * PAGE, VmaFlags::READ))?;
        let wrote = self.write(space, at(round % PAGES), 0)?;
        expect(!wrote, || "a store to memory that may only be read".into())?;
        self.verify(space, start, word)?;
        must(space.protect(start, PAGES * PAGE, VmaFlags::READ | VmaFlags::WRITE))?;
        must(space.advise(start, PAGES * PAGE / 2, Advice::DontNeed))?;
        self.verify(space, start, |page| if page < PAGES / 2 { 0 } else { word(page) })?;
        must(space.unmap(start, PAGES * PAGE))
    }

    /// Each page holds what `due` says.
    fn verify(&self, space: &Space<'v, F>, start: VirtAddr, due: impl Fn(u64) -> u64) -> Result<(), String> {
        for page in 0..PAGES {
            let found = self.read(space, VirtAddr(start.0 + page * PAGE))?;
            let due = due(page);
            expect(found == Some(due), || {
                format!("page {page} of {start:?} holds {found:x?} instead of {due:#x}")
            })?;
        }
        Ok(())
    }

    /// Maps, protects, drops, unmaps or touches contested pages.
    fn contested(&mut self) -> Result<(), String> {
        let space = self.run.shared;
        let (addr, len) = CONTESTED.part(&mut self.rng);
        let kind = self.rng.below(10);
        match kind {
            0..=2 => {
                let sharing = if kind == 0 { Sharing::Shared } else { Sharing::Private };
                let request = MapRequest { place: Place::Fixed(addr), sharing, ..MapRequest::anonymous(len) };
                must(space.map(&request))?;
            }
            3 => must(space.unmap(addr, len))?,
            4 => or_hole(space.protect(addr, len, self.rng.pick(&RIGHTS)))?,
            5 => or_hole(space.advise(addr, len, Advice::DontNeed))?,
            6 => or_hole(space.advise(addr, len, Advice::Free))?,
            7 => or_hole(space.advise(addr, len, Advice::PopulateWrite))?,
            8 => or_hole(space.mincore(addr, len, |_, _| ()))?,
            _ => {}
        }
        self.touch(space, CONTESTED)
    }

    /// Takes the object out of the space, puts it in again, or uses it.
    fn object(&mut self) -> Result<(), String> {
        let space = self.run.shared;
        let (addr, len) = OBJECT.part(&mut self.rng);
        match self.rng.below(4) {
            0 => must(space.unmap(addr, len))?,
            1 => map_again(space, self.own)?,
            2 => or_hole(space.advise(addr, len, Advice::DontNeed))?,
            _ => {}
        }
        self.touch(space, OBJECT)
    }

    /// The heap grows or shrinks; what is stored there may be gone at once.
    fn heap(&mut self) -> Result<(), String> {
        let (space, start) = (self.run.shared, self.run.shared.layout().heap_start);
        let pages = self.rng.below(16);
        space.brk(VirtAddr(start.0 + pages * PAGE));
        self.touch(space, Area { start: start.0, pages: 16, mark: 0x4EA9 })
    }

    /// Stores to some pages of an area, and looks at others. Any of them may be absent, or not allow it.
    fn touch(&mut self, space: &Space<'v, F>, area: Area) -> Result<(), String> {
        for _ in 0..4 {
            let page = self.rng.below(area.pages);
            if self.rng.chance(1, 2) {
                self.write(space, area.page(page), area.word(page))?;
            }
            let page = self.rng.below(area.pages);
            let found = self.read(space, area.page(page))?;
            expect(found.is_none_or(|word| word == 0 || word == area.word(page)), || {
                format!("{:?} holds {found:x?}, which is not its own", area.page(page))
            })?;
        }
        Ok(())
    }

    /// What a word holds, if it may be read.
    fn read(&self, space: &Space<'v, F>, addr: VirtAddr) -> Result<Option<u64>, String> {
        let faults = Faults::new(space);
        let read = self.run.machine.read_u64(addr, &faults);
        read.map(Some).or_else(|_| refused(addr, faults.why()).map(|()| None))
    }

    /// Whether the word may be written, and is.
    fn write(&self, space: &Space<'v, F>, addr: VirtAddr, word: u64) -> Result<bool, String> {
        let faults = Faults::new(space);
        let wrote = self.run.machine.write_u64(addr, word, &faults);
        wrote.map(|()| true).or_else(|_| refused(addr, faults.why()).map(|()| false))
    }
}

/// A refusal for any reason but lack of memory, of which there is enough.
fn refused(addr: VirtAddr, why: Option<FaultError>) -> Result<(), String> {
    expect(why != Some(FaultError::NoMemory), || format!("no memory for {addr:?}"))
}

fn expect(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise()) }
}

fn must<T>(done: Result<T, Error>) -> Result<T, String> {
    done.map_err(|error| format!("a call that must succeed: {error}"))
}

/// Others may have made a hole there, or taken a right away.
fn or_hole(done: Result<(), Error>) -> Result<(), String> {
    match done {
        Ok(()) | Err(Error::NoMemory | Error::Invalid) => Ok(()),
        Err(error) => Err(format!("a call on pages that others change: {error}")),
    }
}
