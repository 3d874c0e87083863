//! One pair on the seeded machine.

use super::Operation;
use super::allowed::{Seen, looked_at, outcomes};
use super::operations::{BASE, Memory, OBJECT, PAGES, Step, Variation, setup, subject, touches};
use crate::calls::{Call, CallResult, PAGE};
use crate::drive::Driver;
use crate::library::{layout_of, map_lines, page_state};
use crate::recount::QuiescentSystem;
use crate::setting::{InheritedZeroPages, Setting};
use interleaf::frame::{Kind, PinnedFrame};
use interleaf::machine::Format;
use interleaf::space::{Active, AddressSpace, MapRequest, MemlockLimit, Place, RmapFound, Sharing, Vm};
use interleaf::units::{Access, CpuId, VirtAddr};
use interleaf_lab::machine::baton::{Baton, Options, Program, Report, Schedule, explore};
use interleaf_lab::machine::soft::boot_map;
use interleaf_lab::machine::soft::{MachineConfig, SoftMachine};
use std::cell::RefCell;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{ControlFlow, Range};
use std::sync::{Arc, OnceLock};

type Machine<F> = SoftMachine<Baton, F>;
type Space<'v, F> = AddressSpace<'v, Machine<F>>;
type ActiveSpace<'s, 'v, F> = Active<'s, 'v, Machine<F>>;

/// A seed that went wrong, and how to see it again.
#[derive(Debug)]
pub struct PairFailure {
    /// The operations of CPU 0 and CPU 1.
    pub pair: (Operation, Operation),
    /// The circumstances.
    pub variation: Variation,
    /// The verdict and the last steps.
    pub report: Report,
}

impl fmt::Display for PairFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (a, b) = self.pair;
        writeln!(f, "{a:?} against {b:?}, {:?}:", self.variation)?;
        write!(f, "{}", self.report)
    }
}

/// Frames of the machine: enough that nothing is refused, and few, as each run makes them dirty.
const FRAMES: u64 = 512;

/// The setting of all runs: nothing is refused for lack of memory.
fn setting() -> Setting {
    Setting { memory_pages: 1 << 40, zero_pages: InheritedZeroPages::Everywhere, ..Setting::default() }
}

/// Plays a pair with each seed; a seed decides the variation and the schedule. Returns how many steps there
/// were.
///
/// # Errors
/// The first seed that went wrong.
pub fn run_pair<F: Format>(pair: (Operation, Operation), seeds: Range<u64>) -> Result<u64, Box<PairFailure>> {
    let legal: Arc<[OnceLock<Vec<Seen>>]> = (0..Variation::COUNT).map(|_| OnceLock::new()).collect();
    let options = Options { limit_steps: 200_000, keep: 80 };
    let played = explore(seeds, options, move |schedule| {
        let variation = Variation::of_seed(schedule.seed());
        let known = &legal[(schedule.seed() % Variation::COUNT) as usize];
        scenario::<F>(schedule, pair, variation, known.get_or_init(|| outcomes(pair, variation, &setting())));
    });
    match played {
        Ok(summary) => Ok(summary.steps),
        Err(report) => {
            let variation = Variation::of_seed(report.seed);
            Err(Box::new(PairFailure { pair, variation, report: *report }))
        }
    }
}
/// What a run plays with.
struct PairRun<'a, 'v, F: Format> {
    machine: &'a Machine<F>,
    /// What each CPU runs: the same space, or one each.
    own: [&'a Space<'v, F>; 2],
    /// What each CPU runs for a while, or ends.
    others: [RefCell<Option<Space<'v, F>>>; 2],
    /// What each CPU has forked.
    children: [RefCell<Option<Space<'v, F>>>; 2],
    /// What each CPU has loaded between two steps. Left as it is by a check that fails.
    active: ManuallyDrop<[RefCell<Option<ActiveSpace<'a, 'v, F>>>; 2]>,
    variation: Variation,
    setting: Setting,
}

fn scenario<F: Format>(
    schedule: &Schedule,
    pair: (Operation, Operation),
    variation: Variation,
    legal: &[Seen],
) {
    let (setting, machine) =
        (setting(), Machine::<F>::new(&MachineConfig::small(2, FRAMES)).expect("a machine"));
    let cpu = machine.enter(CpuId(0));
    let vm = Vm::new(&machine, boot_map(&machine)).expect("memory");
    let before = vm.memory().check().expect("frames add up at the start").allocated;
    let new = || AddressSpace::new(&vm, layout_of(&setting), variation.path).expect("memory for a space");
    // A check that fails leaves the spaces as they are.
    let spaces: ManuallyDrop<Vec<_>> = ManuallyDrop::new((0..variation.spaces()).map(|_| new()).collect());
    let all: Vec<_> = spaces.iter().collect();
    let others = [new(), new()].map(|other| RefCell::new(Some(other)));
    drop(cpu);
    let own = [all[0], all[variation.spaces() - 1]];
    let active = ManuallyDrop::new([RefCell::new(None), RefCell::new(None)]);
    let children = [RefCell::new(None), RefCell::new(None)];
    let world = PairRun { machine: &machine, own, others, children, active, variation, setting };
    world.prepare();
    let answers = world.race(schedule, pair);
    let cpu = machine.enter(CpuId(0));
    let kept: Vec<_> = world.others.into_iter().filter_map(RefCell::into_inner).collect();
    let children: Vec<_> = world.children.into_iter().filter_map(RefCell::into_inner).collect();
    let living: Vec<_> = all.iter().copied().chain(&kept).chain(&children).collect();
    QuiescentSystem { machine: &machine, vm: &vm, spaces: &living, path: variation.path }.must_hold();
    let compared: Vec<_> = all.iter().copied().chain(&children).collect();
    let seen = look(&compared, &world.setting, answers);
    assert!(legal.contains(&seen), "an outcome that no order explains: {seen:#x?}\nlegal are {legal:#x?}");
    world.active[0].take();
    drop(cpu);
    {
        let _cpu = machine.enter(CpuId(1));
        world.active[1].take();
        vm.trim();
    }
    let _cpu = machine.enter(CpuId(0));
    drop((ManuallyDrop::into_inner(spaces), kept, children));
    vm.trim();
    let after = vm.memory().check().expect("frames add up at the end").allocated;
    assert_eq!(after, before, "frames handed out before and after");
}

impl<'v, F: Format> PairRun<'_, 'v, F> {
    /// Maps, and has each CPU touch the pages that its TLB is to hold. Both run their spaces afterwards.
    fn prepare(&self) {
        for cpu in 0..2 {
            let _cpu = self.machine.enter(CpuId(cpu));
            if let Some(other) = &*self.others[cpu as usize].borrow() {
                let _running = other.activate(None);
                self.set_up(other, None);
            }
            let own = self.own[cpu as usize];
            self.active[cpu as usize].replace(Some(own.activate(None)));
            if cpu == 0 {
                self.set_up(own, None);
            } else if self.variation.memory == Memory::TwoSpaces {
                self.set_up(own, Some(self.own[0]));
            }
            self.call_all(own, &touches(self.variation));
        }
    }

    /// Maps what a run begins with, the memory that it is about perhaps from another space.
    fn set_up(&self, space: &Space<'v, F>, from: Option<&Space<'v, F>>) {
        match from {
            None => {
                self.call_all(space, &[subject(self.variation)]);
                if self.variation.memory == Memory::OfObject {
                    map_same(space, (space, OBJECT), Sharing::Private);
                }
            }
            Some(other) => map_same(space, (other, BASE), Sharing::Shared),
        }
        self.call_all(space, &setup(self.variation, self.setting.start_brk));
    }

    fn call_all(&self, space: &Space<'_, F>, calls: &[Call]) {
        let driver = Driver { machine: self.machine, space };
        calls.iter().for_each(|call| drop(driver.call(call)));
    }

    /// Runs both CPUs; returns what each was answered.
    fn race(&self, schedule: &Schedule, pair: (Operation, Operation)) -> [Vec<CallResult>; 2] {
        let answers = [RefCell::new(Vec::new()), RefCell::new(Vec::new())];
        let program = |(cpu, operation): (usize, Operation)| -> Program<'_> {
            let cpu_state = CpuState {
                driver: Driver { machine: self.machine, space: self.own[cpu] },
                other: &self.others[cpu],
                child: &self.children[cpu],
                active: &self.active[cpu],
            };
            let answers = &answers[cpu];
            let steps = operation.steps(cpu as u64, self.variation, self.setting.start_brk);
            Box::new(move || {
                for step in steps {
                    let answer = cpu_state.take_step(step);
                    answers.borrow_mut().extend(answer);
                }
            })
        };
        schedule.run(self.machine, [pair.0, pair.1].into_iter().enumerate().map(program).collect());
        answers.map(RefCell::into_inner)
    }
}

/// What one CPU works with.
struct CpuState<'r, 'a, 'v, F: Format> {
    driver: Driver<'a, 'v, Baton, F>,
    other: &'r RefCell<Option<Space<'v, F>>>,
    child: &'r RefCell<Option<Space<'v, F>>>,
    active: &'r RefCell<Option<ActiveSpace<'a, 'v, F>>>,
}

impl<'v, F: Format> CpuState<'_, '_, 'v, F> {
    fn take_step(&self, step: Step) -> Option<CallResult> {
        match step {
            Step::Call(call) | Step::Access(call) => Some(self.driver.call(&call)),
            Step::Pages { addr, pages, advice } => {
                Some(self.driver.call(&Call::Madvise { addr, len: pages * PAGE, advice }))
            }
            Step::OtherSpaceEnds => {
                drop(self.other.take());
                None
            }
            Step::OtherSpaceRuns => {
                let other = self.other.borrow();
                let other = other.as_ref().expect("it is there until it ends");
                let answer = self.call_in(other, &Call::Write { addr: BASE, value: 5 });
                assert_eq!(answer, CallResult::Written, "a store in the other space");
                None
            }
            Step::Fork => {
                self.child.replace(Some(self.driver.space.fork().expect("there is memory")));
                None
            }
            Step::Force { addr, value } => Some(self.driver.force(addr, value)),
            Step::FindEntries { addr } => {
                self.find_entries(VirtAddr(addr));
                None
            }
            Step::PinRange { addr, pages } => Some(self.pin_range(VirtAddr(addr), pages)),
            Step::InChild(call) => {
                let child = self.child.borrow();
                Some(self.call_in(child.as_ref().expect("it was forked"), &call))
            }
        }
    }

    /// Asks the reverse map for the entries of the frame that the page has, in the CPU's own space alone:
    /// each that it tells of is one, while it is told.
    fn find_entries(&self, addr: VirtAddr) {
        let space = self.driver.space;
        let memory = space.vm().memory();
        let Some((pfn, _)) = space.inspect().resident_frame(addr.vpn()) else { return };
        let Some(frame) = memory.try_get(pfn) else { return };
        let known = |id| (space.id() == id).then_some(space);
        // A space may map an object at several places.
        let is_objects = memory.meta(pfn).is_some_and(|meta| meta.state().kind() == Kind::Object);
        let answer = space.vm().rmap_walk(&frame, known, |entry| {
            assert_eq!(entry.leaf().pfn, pfn, "an entry of another frame");
            assert!(is_objects || entry.page() == addr.vpn(), "{entry:?} is another page's");
            ControlFlow::Continue(())
        });
        // Children are not known: there are more entries than can be told.
        assert!(is_objects || !matches!(answer, Ok(RmapFound::All(2..))), "{answer:?}");
        assert_ne!(answer, Ok(RmapFound::Stopped));
    }

    /// Pins the pages, looks at what a device would see, and lets them go. Whatever happens to the pages,
    /// what is pinned stays memory of this machine that holds what was stored to the page, or zeros.
    fn pin_range(&self, addr: VirtAddr, pages: u64) -> CallResult {
        let space = self.driver.space;
        let limit = MemlockLimit::new(pages);
        let slots: Vec<Option<PinnedFrame<'v, Machine<F>>>> = (0..pages).map(|_| None).collect();
        let answer = match space.pin_range(addr, Access::Write, &limit, slots) {
            Ok(pinned) => {
                assert_eq!((pinned.len() as u64, limit.locked_pages()), (pages, pages), "all are pinned");
                for frame in pinned.frames() {
                    let meta = space.vm().memory().meta(frame.pfn()).expect("it is memory");
                    assert!(meta.pincount() >= 1, "{:?} is pinned, and counts none", frame.pfn());
                    let mut byte = [0];
                    self.driver.machine.read(frame.pfn(), 0, &mut byte);
                    assert!(is_stored(byte[0]), "a device sees {byte:?}, which nobody stored");
                }
                CallResult::Value(0)
            }
            Err(error) => CallResult::Error(error.into()),
        };
        assert_eq!(limit.locked_pages(), 0, "pins are charged that are gone, or were never had");
        answer
    }

    /// Runs another space for a call.
    fn call_in(&self, space: &Space<'v, F>, call: &Call) -> CallResult {
        let visiting = space.activate(self.active.take());
        let answer = Driver { machine: self.driver.machine, space }.call(call);
        self.active.replace(Some(self.driver.space.activate(Some(visiting))));
        answer
    }
}

/// Maps at the usual place the shared memory that a space has somewhere.
fn map_same<'v, F: Format>(space: &Space<'v, F>, (other, from): (&Space<'v, F>, u64), sharing: Sharing) {
    let (object, first) = other.object_at(VirtAddr(from)).expect("it is shared");
    let request = MapRequest {
        backing: object.at_page(first),
        place: Place::Fixed(VirtAddr(BASE)),
        sharing,
        ..MapRequest::anonymous(PAGES * PAGE)
    };
    space.map(&request).expect("there is room");
}

/// Whether an operation, or what comes before it, stores the byte to a page of the memory: else its frame is
/// zero.
fn is_stored(byte: u8) -> bool {
    matches!(byte, 0 | 9..=11 | 30 | 31 | 40 | 41 | 50 | 51 | 60 | 61 | 70 | 71 | 80..=84 | 100..=105)
}

fn look<F: Format>(spaces: &[&Space<'_, F>], setting: &Setting, answers: [Vec<CallResult>; 2]) -> Seen {
    let shown = |&space: &&Space<'_, F>| {
        let page = |addr| Some((addr, page_state(space, addr)?));
        (map_lines(space, |_| true), looked_at(setting).filter_map(page).collect())
    };
    Seen { answers, spaces: spaces.iter().map(shown).collect() }
}
