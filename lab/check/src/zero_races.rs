//! Every pair of what meets at the huge zero page, or the table in its place, run by two CPUs at once on the
//! seeded machine.
//!
//! ```text
//!   a mapping of one huge page, untouched, loaded from or stored to by both CPUs
//!     cpu 0: action A     cpu 1: action B     seed decides which CPU steps next
//!   then: every byte is zero or what a CPU has stored; no store is lost that nothing has discarded; all
//! recounted;
//!   when the spaces have ended and memory was trimmed, as many frames are allocated as before
//! ```
//!
//! Contents are compared, not residency: what is resident depends on which page the fault was about that came
//! first, and both answers are right.

use super::calls::{Call, CallResult, MapFlags, PAGE, Prot, advice};
use super::drive::Driver;
use super::library::layout_of;
use super::recount::QuiescentSystem;
use super::setting::Setting;
use interleaf::machine::Format;
use interleaf::space::{Active, AddressSpace, Path, Vm, VmOptions};
use interleaf::units::{CpuId, PageSize, VirtAddr};
use interleaf::vma::{HugePolicy, ZeroPagePolicy};
use interleaf_lab::machine::baton::{Baton, Options, Program, Report, Schedule, explore};
use interleaf_lab::machine::soft::boot_map;
use interleaf_lab::machine::soft::{MachineConfig, SoftMachine};
use std::cell::RefCell;
use std::ops::Range;

type Machine<F> = SoftMachine<Baton, F>;
type Space<'v, F> = AddressSpace<'v, Machine<F>>;
type ActiveSpace<'s, 'v, F> = Active<'s, 'v, Machine<F>>;

/// What one CPU does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Loads a byte: maps the huge zero page.
    Load,
    /// Stores a byte of its own, and loads it and one beside it.
    Store,
    /// Loads, then stores: the page is replaced.
    LoadAndStore,
    /// MADV_DONTNEED of all of it, and a load.
    Discard,
    /// munmap of a page that is never stored to: a split.
    UnmapPage,
    /// mprotect to read and back, and a store.
    ProtectAndStore,
    /// fork, a load and a store in the parent; the child is looked at afterwards.
    Fork,
    /// Stores to the one huge page and then to the other, in turns: no child of a fork has the second store
    /// and not the first.
    StoreInOrder,
    /// Another space that uses the page ends, and memory is trimmed; then one begins to use it.
    EndAndTrim,
}

impl Action {
    /// All actions.
    pub const ALL: [Action; 9] = [
        Action::Load,
        Action::Store,
        Action::LoadAndStore,
        Action::Discard,
        Action::UnmapPage,
        Action::ProtectAndStore,
        Action::Fork,
        Action::StoreInOrder,
        Action::EndAndTrim,
    ];

    const fn discards(self) -> bool {
        matches!(self, Action::Discard)
    }

    const fn stores(self) -> bool {
        matches!(self, Action::Store | Action::LoadAndStore | Action::ProtectAndStore | Action::Fork)
    }
}

/// All unordered pairs, an action with itself among them.
pub fn all() -> impl Iterator<Item = [Action; 2]> {
    super::drive::unordered(&Action::ALL).map(|(a, b)| [a, b])
}

const HUGE: u64 = PageSize::Huge.bytes();
/// Start of the mapping, two huge pages.
const BASE: u64 = 16 << 40;
/// A page of the mapping that is unmapped, and never stored to.
const CUT: u64 = BASE + 400 * PAGE;
/// Frames: two huge pages for the space, two for each child, the zero page, and tables.
const FRAMES: u64 = 10 * 512;
/// Rounds of stores in order.
const ROUNDS: u8 = 2;

/// Where a CPU stores, or both do.
const fn own_byte(cpu: u64, seed: u64) -> u64 {
    BASE + if seed & 1 == 0 { 3 * PAGE + cpu } else { (3 + 100 * cpu) * PAGE }
}

/// Where a CPU stores in order, first and second.
const fn in_order(cpu: u64) -> [u64; 2] {
    [BASE + 20 * PAGE + cpu, BASE + HUGE + 20 * PAGE + cpu]
}

const fn value_of(cpu: u64) -> u8 {
    10 + cpu as u8
}

/// Plays a pair with each seed, which decides the schedule, what was touched, the path of faults, whether the
/// CPUs store to one page, and whether there is a huge zero page or a table in its place.
///
/// # Errors
/// The first seed that went wrong.
pub fn run_pair<F: Format>(pair: [Action; 2], seeds: Range<u64>) -> Result<u64, Box<Report>> {
    let options = Options { limit_steps: 200_000, keep: 80 };
    explore(seeds, options, move |schedule| scenario::<F>(schedule, pair)).map(|summary| summary.steps)
}

fn scenario<F: Format>(schedule: &Schedule, pair: [Action; 2]) {
    let seed = schedule.seed();
    let (setting, path) = (Setting::default(), if seed & 2 == 0 { Path::Speculative } else { Path::Locked });
    let machine = Machine::<F>::new(&MachineConfig::small(2, FRAMES)).expect("a machine");
    let entered = machine.enter(CpuId(0));
    let policy = if seed >> 4 & 1 == 0 { ZeroPagePolicy::Huge } else { ZeroPagePolicy::Virtual };
    let memory = boot_map(&machine).claim(&machine).expect("no other system has it");
    let options = VmOptions { huge_pages: HugePolicy::Always, zero_page: policy, ..VmOptions::default() };
    let vm = Vm::start(memory, options).expect("memory");
    let before = vm.memory().check().expect("frames add up at the start").allocated;
    let new = || AddressSpace::new(&vm, layout_of(&setting), path).expect("memory for a space");
    let (space, others) = (new(), [new(), new()].map(|other| RefCell::new(Some(other))));
    let children = [RefCell::new(None), RefCell::new(None)];
    drop(entered);
    let active = [RefCell::new(None), RefCell::new(None)];
    for cpu in 0..2 {
        let _entered = machine.enter(CpuId(cpu));
        if cpu == 0 {
            map(&Driver { machine: &machine, space: &space });
        }
        let loaded = space.activate(None);
        touch_before(&Driver { machine: &machine, space: &space }, seed);
        let other = others[cpu as usize].borrow();
        let visiting = other.as_ref().expect("it was made").activate(Some(loaded));
        map(&Driver { machine: &machine, space: other.as_ref().expect("it was made") });
        Driver { machine: &machine, space: other.as_ref().expect("it was made") }
            .call(&Call::Read { addr: BASE });
        active[cpu as usize].replace(Some(space.activate(Some(visiting))));
    }
    let runs = [0, 1].map(|cpu| CpuRun {
        driver: Driver { machine: &machine, space: &space },
        cpu: cpu as u64,
        seed,
        path,
        other: &others[cpu],
        child: &children[cpu],
        active: &active[cpu],
    });
    let programs = runs
        .iter()
        .zip(pair)
        .map(|(run, action)| -> Program<'_> { Box::new(move || run.perform(action, pair)) });
    schedule.run(&machine, programs.collect());
    let entered = machine.enter(CpuId(0));
    let kept: Vec<_> = others.into_iter().filter_map(RefCell::into_inner).collect();
    let children: Vec<_> = children.into_iter().filter_map(RefCell::into_inner).collect();
    let living: Vec<_> = [&space].into_iter().chain(&kept).chain(&children).collect();
    QuiescentSystem { machine: &machine, vm: &vm, spaces: &living, path }.must_hold();
    children.iter().for_each(|child| look_through(child, pair, seed));
    look_through(&space, pair, seed);
    active[0].take();
    drop(entered);
    {
        let _entered = machine.enter(CpuId(1));
        active[1].take();
        vm.trim();
    }
    let _entered = machine.enter(CpuId(0));
    drop(active);
    drop((space, kept, children));
    vm.trim();
    let after = vm.memory().check().expect("frames add up at the end").allocated;
    // The table of zeros stays.
    let kept = vm.memory().zero_pages().table_frames();
    assert_eq!(after, before + kept, "frames allocated before and after");
}

fn map<F: Format>(driver: &Driver<'_, '_, Baton, F>) {
    let flags = MapFlags::PRIVATE | MapFlags::ANONYMOUS | MapFlags::FIXED;
    driver.call(&Call::Mmap { hint: BASE, len: 2 * HUGE, prot: Prot::READ | Prot::WRITE, flags });
}

/// Nothing, a load by both CPUs, or a load of a page that is never stored to and a split.
fn touch_before<F: Format>(driver: &Driver<'_, '_, Baton, F>, seed: u64) {
    if seed >> 2 & 3 != 0 {
        driver.call(&Call::Read { addr: BASE + 5 * PAGE });
        driver.call(&Call::Read { addr: BASE + HUGE });
    }
    if seed >> 2 & 3 == 3 {
        driver.call(&Call::Madvise { addr: CUT + PAGE, len: PAGE, advice: advice::DONTNEED });
    }
}

/// Bytes that a page may hold: zero, and what was stored there.
fn look_through<F: Format>(space: &Space<'_, F>, pair: [Action; 2], seed: u64) {
    for cpu in 0..2 {
        let byte = byte_of(space, own_byte(cpu, seed));
        let may_hold = byte == 0 || pair[cpu as usize].stores() && byte == value_of(cpu);
        assert!(may_hold, "CPU {cpu} finds {byte} where it stores");
    }
    assert_eq!(byte_of(space, BASE + 77 * PAGE), 0, "a page that nobody has written");
    if !pair.iter().any(|action| action.discards()) {
        for cpu in 0..2 {
            let [first, second] = in_order(cpu).map(|addr| byte_of(space, addr));
            assert!(first >= second && first <= ROUNDS, "CPU {cpu} stored {first} and then {second}");
        }
    }
}

fn byte_of<F: Format>(space: &Space<'_, F>, addr: u64) -> u8 {
    let mut byte = [0xff];
    space.copy_from(VirtAddr(addr), &mut byte).expect("it is mapped");
    byte[0]
}

/// What one CPU works with.
struct CpuRun<'r, 'a, 'v, F: Format> {
    driver: Driver<'a, 'v, Baton, F>,
    cpu: u64,
    seed: u64,
    path: Path,
    other: &'r RefCell<Option<Space<'v, F>>>,
    child: &'r RefCell<Option<Space<'v, F>>>,
    active: &'r RefCell<Option<ActiveSpace<'a, 'v, F>>>,
}

impl<'v, F: Format> CpuRun<'_, '_, 'v, F> {
    fn perform(&self, action: Action, pair: [Action; 2]) {
        let is_kept = !pair.iter().any(|action| action.discards());
        let protects = pair.contains(&Action::ProtectAndStore);
        match action {
            Action::Load => assert_eq!(self.load(BASE + 9 * PAGE), 0),
            Action::Store => self.store(is_kept, protects),
            Action::LoadAndStore => {
                assert_eq!(self.load(BASE + 9 * PAGE), 0);
                self.store(is_kept, protects);
            }
            Action::Discard => {
                self.driver.call(&Call::Madvise { addr: BASE, len: HUGE, advice: advice::DONTNEED });
                assert_eq!(self.load(BASE + 9 * PAGE), 0);
            }
            Action::UnmapPage => {
                self.driver.call(&Call::Munmap { addr: CUT, len: PAGE });
                assert_eq!(self.load(CUT + PAGE), 0);
            }
            Action::ProtectAndStore => {
                for prot in [Prot::READ, Prot::READ | Prot::WRITE] {
                    self.driver.call(&Call::Mprotect { addr: BASE, len: CUT - BASE, prot });
                }
                self.store(is_kept, protects);
            }
            Action::Fork => {
                self.child.replace(Some(self.driver.space.fork().expect("there is memory")));
                assert_eq!(self.load(BASE + 9 * PAGE), 0);
                self.store(is_kept, protects);
            }
            // A store that is refused would be out of order.
            Action::StoreInOrder if protects => {}
            Action::StoreInOrder => {
                for value in 1..=ROUNDS {
                    for addr in in_order(self.cpu) {
                        let answer = self.driver.call(&Call::Write { addr, value });
                        assert_eq!(answer, CallResult::Written, "a store");
                    }
                }
            }
            Action::EndAndTrim => self.end_and_trim(),
        }
    }

    fn load(&self, addr: u64) -> u8 {
        match self.driver.call(&Call::Read { addr }) {
            CallResult::Byte(byte) => byte,
            refused => panic!("a load at {addr:#x}: {refused:?}"),
        }
    }

    /// Stores, and finds it there, unless it is discarded; the page beside it is zero.
    fn store(&self, is_kept: bool, protects: bool) {
        let addr = own_byte(self.cpu, self.seed);
        let answer = self.driver.call(&Call::Write { addr, value: value_of(self.cpu) });
        let is_done = answer == CallResult::Written;
        assert!(is_done || protects, "a store: {answer:?}");
        let found = self.load(addr);
        assert!(
            found == 0 && !(is_kept && is_done) || found == value_of(self.cpu) && is_done,
            "found {found}"
        );
        assert_eq!(self.load(BASE + 300 * PAGE), 0, "nobody has written there");
    }

    fn end_and_trim(&self) {
        let vm = self.driver.space.vm();
        drop(self.other.take());
        vm.trim();
        let other = AddressSpace::new(vm, *self.driver.space.layout(), self.path).expect("memory");
        let visiting = other.activate(self.active.take());
        let driver = Driver { machine: self.driver.machine, space: &other };
        map(&driver);
        assert_eq!(driver.call(&Call::Read { addr: BASE }), CallResult::Byte(0));
        self.active.replace(Some(self.driver.space.activate(Some(visiting))));
        self.other.replace(Some(other));
    }
}
