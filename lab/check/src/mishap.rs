//! Every allocation of every operation, failed once.
//!
//! The n-th allocation from the start of a call fails, for n = 1, 2, 3... until the call needs fewer; or all
//! from the n-th on. Each time mappings and contents are as they were where the call failed, everything adds
//! up, and the same call succeeds when it is made again.

use super::calls::{Call, CallResult, Errno, MapLine, PAGE, PageState, fingerprint};
use super::drive::Driver;
use super::library::{layout_of, map_lines, page_state};
use super::recount::QuiescentSystem;
use super::setting::Setting;
use interleaf::machine::Format;
use interleaf::space::{AddressSpace, Error, Path, Vm, VmOptions};
use interleaf::units::CpuId;
use interleaf::vma::HugePolicy;
use interleaf_lab::machine::host::Host;
use interleaf_lab::machine::soft::boot_map;
use interleaf_lab::machine::soft::{MachineConfig, SoftMachine};
use std::fmt;
use std::ops::Range;

/// How often an operation was made to fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MishapCounts {
    /// Allocations that failed.
    pub mishaps: u64,
    /// Of them, those after which the call still succeeded.
    pub survived: u64,
}

/// Which allocations of a call fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MishapMode {
    /// The n-th.
    Nth,
    /// The n-th and all after it: waiting does not help.
    From,
}

/// What is done while allocations fail.
#[derive(Clone, Copy, Debug)]
pub enum Attempt<'a> {
    /// A call.
    Call(&'a Call),
    /// A fork.
    Fork,
    /// A call of a space that has a child.
    CallOfParent(&'a Call),
    /// A call of a child.
    CallOfChild(&'a Call),
}

impl fmt::Display for Attempt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(call) => write!(f, "{call}"),
            Self::Fork => f.write_str("fork();"),
            Self::CallOfParent(call) => write!(f, "{call} by a parent"),
            Self::CallOfChild(call) => write!(f, "{call} by a child"),
        }
    }
}

/// A machine on which calls fail.
pub struct Mishaps<F: Format> {
    machine: SoftMachine<Host, F>,
    setting: Setting,
    path: Path,
    huge: HugePolicy,
}

/// What is looked at before and after.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SpaceState {
    map: Vec<MapLine>,
    pages: Vec<(u64, PageState)>,
}

const FRAMES: u64 = 4096;
/// The same where memory gets huge pages: a child's, and one that is copied.
const HUGE_FRAMES: u64 = 16 * 512;
/// The most huge pages that a fork splits here.
const MOST_SPLIT: u64 = 2;
/// More allocations than any call makes.
const MOST: u64 = 200;

impl<F: Format> Mishaps<F> {
    /// A machine whose spaces' faults go `path`.
    ///
    /// # Errors
    /// What the host says.
    pub fn new(path: Path) -> std::io::Result<Self> {
        Self::with(path, HugePolicy::Never, FRAMES)
    }

    /// The same, where all private memory gets huge pages.
    ///
    /// # Errors
    /// What the host says.
    pub fn with_huge_pages(path: Path) -> std::io::Result<Self> {
        Self::with(path, HugePolicy::Always, HUGE_FRAMES)
    }

    fn with(path: Path, huge: HugePolicy, frames: u64) -> std::io::Result<Self> {
        let setting = Setting { memory_pages: 1 << 40, ..Setting::default() };
        Ok(Self { machine: SoftMachine::new(&MachineConfig::small(1, frames))?, setting, path, huge })
    }

    fn system(&self) -> Vm<'_, SoftMachine<Host, F>> {
        let memory = boot_map(&self.machine).claim(&self.machine).expect("no other system has it");
        let options = VmOptions { huge_pages: self.huge, ..VmOptions::default() };
        Vm::start(memory, options).expect("memory")
    }

    /// Makes an attempt after `setup`, failing each of its allocations in turn. Pages of `looked_at` are
    /// compared, those of a child too.
    ///
    /// # Panics
    /// Where something differs from what must hold.
    pub fn inject(
        &mut self,
        mode: MishapMode,
        setup: &[Call],
        attempt: Attempt<'_>,
        looked_at: Range<u64>,
    ) -> MishapCounts {
        self.machine.unclaim_memory();
        let _cpu = self.machine.enter(CpuId(0));
        let vm = self.system();
        let mut counts = MishapCounts::default();
        for nth in 1..MOST {
            let allocated = || vm.memory().check().expect("frames add up").allocated;
            let before = allocated();
            let goes_on = self.inject_once(&vm, setup, attempt, &looked_at, (mode, nth), &mut counts);
            vm.trim();
            assert_eq!(allocated(), before, "frames after {attempt} with mishap {nth}");
            if !goes_on {
                return counts;
            }
        }
        panic!("{attempt} makes more than {MOST} allocations");
    }

    /// Fails one allocation. Returns whether the attempt made that many.
    fn inject_once(
        &self,
        vm: &Vm<'_, SoftMachine<Host, F>>,
        setup: &[Call],
        attempt: Attempt<'_>,
        looked_at: &Range<u64>,
        (mode, nth): (MishapMode, u64),
        counts: &mut MishapCounts,
    ) -> bool {
        let space = AddressSpace::new(vm, layout_of(&self.setting), self.path).expect("memory");
        let running = space.activate(None);
        let parent = Driver { machine: &self.machine, space: &space };
        setup.iter().for_each(|call| drop(parent.call(call)));
        let has_child = matches!(attempt, Attempt::CallOfParent(_) | Attempt::CallOfChild(_));
        let child = has_child.then(|| space.fork().expect("memory"));
        let child_runs = child.as_ref().filter(|_| matches!(attempt, Attempt::CallOfChild(_)));
        let subject = child_runs.unwrap_or(&space);
        let _running = match child_runs {
            Some(child) => child.activate(Some(running)),
            None => running,
        };
        let mut forked = None;
        let mut perform = || match attempt {
            Attempt::Call(call) | Attempt::CallOfParent(call) | Attempt::CallOfChild(call) => {
                is_failure(call, &Driver { machine: &self.machine, space: subject }.call(call))
            }
            Attempt::Fork => match space.fork() {
                Ok(child) => forked.replace(child).is_some(),
                Err(error) => error == Error::NoMemory || panic!("{error:?}"),
            },
        };
        let observe_all = || [Some(&space), child.as_ref()].map(|space| Some(observe(space?, looked_at)));
        // Cached frames would hide the need for memory.
        vm.trim();
        let allocated = || vm.memory().check().expect("frames add up").allocated;
        let (before, frames) = (observe_all(), allocated());
        match mode {
            MishapMode::Nth => vm.memory().plan_mishap(nth),
            MishapMode::From => vm.memory().plan_mishaps_from(nth),
        }
        let failed = perform();
        let happened = !vm.memory().is_mishap_planned();
        vm.memory().plan_mishap(0);
        assert!(happened || !failed, "{attempt} fails without a mishap");
        counts.mishaps += u64::from(happened);
        counts.survived += u64::from(happened && !failed);
        if failed {
            let after = observe_all();
            let pairs =
                before.iter().zip(&after).filter_map(|(before, after)| before.as_ref().zip(after.as_ref()));
            for (before, after) in pairs {
                assert!(
                    is_as_before(before, after),
                    "{attempt}, mishap {nth}: {before:#x?}\nbecame {after:#x?}"
                );
            }
            if matches!(attempt, Attempt::Fork) {
                vm.trim();
                assert_eq!(after, before, "fork, mishap {nth}");
                // Huge pages that it has split stay so: each has a table more.
                let most_split = if self.huge.is_ever() { MOST_SPLIT } else { 0 };
                let kept = allocated() - frames;
                assert!(kept <= most_split, "{kept} frames are kept by a refused fork, mishap {nth}");
            }
            let living: Vec<_> = [&space].into_iter().chain(&child).collect();
            QuiescentSystem { machine: &self.machine, vm, spaces: &living, path: self.path }.must_hold();
            assert!(!perform(), "{attempt} fails again after mishap {nth}");
        }
        let living: Vec<_> = [&space].into_iter().chain(&child).chain(&forked).collect();
        QuiescentSystem { machine: &self.machine, vm, spaces: &living, path: self.path }.must_hold();
        happened
    }

    /// Fails each allocation that a new space makes. Returns how many there were.
    ///
    /// # Panics
    /// Where something differs from what must hold.
    pub fn inject_into_new_space(&mut self) -> u64 {
        self.machine.unclaim_memory();
        let _cpu = self.machine.enter(CpuId(0));
        let vm = self.system();
        let allocated = vm.memory().check().expect("frames add up").allocated;
        for nth in 1..MOST {
            vm.memory().plan_mishap(nth);
            let made = AddressSpace::new(&vm, layout_of(&self.setting), self.path);
            let happened = !vm.memory().is_mishap_planned();
            vm.memory().plan_mishap(0);
            assert_eq!(made.as_ref().err(), happened.then_some(&Error::NoMemory));
            drop(made);
            vm.trim();
            assert_eq!(vm.memory().check().expect("frames add up").allocated, allocated);
            if !happened {
                return nth - 1;
            }
        }
        panic!("a space makes more than {MOST} allocations");
    }
}

/// Whether the call was refused for lack of memory. Any other refusal fails.
fn is_failure(call: &Call, answer: &CallResult) -> bool {
    match (call, answer) {
        // brk has no error: it returns the end of the heap.
        (Call::Brk { addr }, CallResult::Value(end)) => end != addr,
        (_, CallResult::Error(errno)) => {
            // What mprotect calls ENOMEM is EAGAIN for advice about attributes.
            assert!(matches!(*errno, Errno::ENOMEM | Errno::EAGAIN), "{call}: {errno:?}");
            true
        }
        (_, CallResult::Segv(segv)) => panic!("{call}: {segv:?}"),
        _ => false,
    }
}

fn observe<F: Format>(space: &AddressSpace<'_, SoftMachine<Host, F>>, pages: &Range<u64>) -> SpaceState {
    let pages = pages.clone().step_by(PAGE as usize);
    SpaceState {
        map: map_lines(space, |_| true),
        pages: pages.filter_map(|addr| Some((addr, page_state(space, addr)?))).collect(),
    }
}

/// The same map, and the same contents: a page may have become present, with zeros.
fn is_as_before(before: &SpaceState, after: &SpaceState) -> bool {
    let zeros = fingerprint(&[0; PAGE as usize]);
    let is_zero = |state| match state {
        PageState::Zero => true,
        PageState::Own(contents) | PageState::Shared(contents) => contents == zeros,
    };
    let was = |addr| {
        let at = before.pages.binary_search_by_key(&addr, |&(page, _)| page);
        at.ok().map(|at| before.pages[at].1)
    };
    let kept = |(addr, state): &(u64, PageState)| match was(*addr) {
        Some(old) => old == *state || (is_zero(old) && is_zero(*state)),
        None => is_zero(*state),
    };
    let gone =
        |(addr, _): &(u64, PageState)| after.pages.binary_search_by_key(addr, |&(page, _)| page).is_err();
    before.map == after.map && after.pages.iter().all(kept) && !before.pages.iter().any(gone)
}
