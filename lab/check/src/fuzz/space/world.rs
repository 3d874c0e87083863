//! The spaces of a sequence, and how a step is done.
//!
//! Spaces have places; a fork fills one, an end empties it, and a step for a place that is empty is one for
//! the first. Each is kept by handles, as a kernel's are: that of its place, and that of the CPU that runs
//! it.

use super::step::{Circumstances, Operation, Refusal, Scope, Source};
use crate::calls::{Call, CallResult, Errno, PAGE};
use crate::drive::Driver;
use crate::library::layout_of;
use crate::recount::QuiescentSystem;
use interleaf::machine::Format;
use interleaf::space::{AddressSpace, Fault, FaultError, MapRequest, Path, Place, SpaceHandle, Spaces, Vm};
use interleaf::units::{CpuId, VirtAddr, Vpn};
use interleaf::vma::{ThpDisable, VmaAttributes, VmaFlags};
use interleaf_lab::machine::soft::boot_map;
use interleaf_lab::machine::soft::{Entered, Flavour, MachineConfig, SoftMachine};
use interleaf_linux_abi as linux;
use std::cell::RefCell;
use std::mem::{ManuallyDrop, forget};

type Handle<'s, 'v, C, F> = SpaceHandle<'s, 'v, SoftMachine<C, F>>;

/// Places of spaces.
pub const PLACES: usize = 4;

/// Spaces of one system, on a machine of flavour `C`.
pub struct World<'a, 's, 'v, C: Flavour, F: Format> {
    /// The machine.
    pub machine: &'a SoftMachine<C, F>,
    /// What its spaces share.
    pub vm: &'a Vm<'v, SoftMachine<C, F>>,
    registry: &'s Spaces<'v, SoftMachine<C, F>>,
    places: &'a [RefCell<Option<Handle<'s, 'v, C, F>>>; PLACES],
    /// Which way their faults go.
    pub path: Path,
}

/// What an operation was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepResult {
    /// Nothing: there is no such space, or its place is taken.
    Skipped,
    /// That of a call.
    Call(CallResult),
    /// Done; the value where there is one.
    Done(u64),
    /// Refused.
    Refused(Errno),
    /// A fault that was refused.
    Fault(FaultError),
}

/// A CPU that runs a space until this is dropped.
pub struct Turn<'s, 'v, C: Flavour, F: Format> {
    /// Dropped while the CPU is entered: it may be the last handle.
    space: Handle<'s, 'v, C, F>,
    _entered: Entered,
    who: (u32, usize),
}

/// Frames of the machine.
pub const FRAMES: u64 = 2048;
/// CPUs of the machine.
pub const CPUS: u32 = 3;

/// A machine for sequences.
pub fn machine<C: Flavour, F: Format>() -> std::io::Result<SoftMachine<C, F>> {
    SoftMachine::new(&MachineConfig::small(CPUS, FRAMES))
}

/// Plays `f` with the spaces of `circumstances` on a machine on which no thread runs; then everything is
/// recounted, the spaces end, and all frames are back.
pub fn with_world<C: Flavour, F: Format, R>(
    machine: &mut SoftMachine<C, F>,
    circumstances: &Circumstances,
    f: impl FnOnce(&World<'_, '_, '_, C, F>) -> Result<R, String>,
) -> Result<R, String> {
    let Circumstances { path, scope, setting, .. } = circumstances;
    machine.unclaim_memory();
    let machine = &*machine;
    let cpu = machine.enter(CpuId(0));
    let vm = Vm::new(machine, boot_map(machine)).expect("memory");
    let registry = Spaces::new(&vm).expect("memory");
    let before = vm.memory().check().map_err(|wrong| wrong.to_string())?.allocated;
    let new = || AddressSpace::new(&vm, layout_of(setting), *path).and_then(|space| registry.insert(space));
    // A check that fails leaves the spaces as they are.
    let places = ManuallyDrop::new([const { RefCell::new(None) }; PLACES]);
    for place in &places[..scope.first_child()] {
        let space = new().expect("memory for a space");
        if *scope == Scope::Modelled {
            fill(&space, circumstances);
            // As the model: advice does not overrule that.
            space.set_thp_disable(ThpDisable::Completely);
        }
        place.replace(Some(space));
    }
    drop(cpu);
    let world = World { machine, vm: &vm, registry: &registry, places: &places, path: *path };
    let result = f(&world)?;
    let cpu = machine.enter(CpuId(0));
    world.recount()?;
    drop(ManuallyDrop::into_inner(places));
    drop(cpu);
    // What a CPU caches, or keeps until no reader is left, it gives back itself.
    (1..CPUS).chain([0]).for_each(|number| {
        let _cpu = machine.enter(CpuId(number));
        vm.trim();
    });
    let cpu = machine.enter(CpuId(0));
    let after = vm.memory().check().map_err(|wrong| wrong.to_string())?.allocated;
    drop(cpu);
    if after == before { Ok(result) } else { Err(format!("{before} frames allocated before, {after} after")) }
}

/// Takes what lies outside of the windows.
fn fill<C: Flavour, F: Format>(space: &AddressSpace<'_, SoftMachine<C, F>>, circumstances: &Circumstances) {
    let setting = &circumstances.setting;
    let [low, main] = &setting.windows;
    let ends = [setting.min_addr, low.start, low.end, main.start, main.end, setting.task_end];
    for gap in ends.chunks(2) {
        let request = MapRequest {
            place: Place::Fixed(VirtAddr(gap[0])),
            flags: VmaFlags::NORESERVE | VmaFlags::SEQUENTIAL_READ | VmaFlags::RANDOM_READ,
            ..MapRequest::anonymous(gap[1] - gap[0])
        };
        space.map(&request).expect("an empty space takes foreign mappings");
    }
}

impl<'s, 'v, C: Flavour, F: Format> Turn<'s, 'v, C, F> {
    /// Makes a CPU run a space, if `turn` does not say that it does.
    pub fn to(turn: &mut Option<Self>, world: &World<'_, 's, 'v, C, F>, who: (u32, usize)) {
        let who = (who.0, world.place(who.1));
        if turn.as_ref().is_some_and(|turn| turn.who == who) {
            return;
        }
        *turn = None;
        let _entered = world.machine.enter(CpuId(who.0));
        let space = world.space(who.1);
        forget(space.activate(None));
        *turn = Some(Self { space, _entered, who });
    }
}

impl<C: Flavour, F: Format> Drop for Turn<'_, '_, C, F> {
    fn drop(&mut self) {
        drop(self.space.active_here());
    }
}

impl<'s, 'v, C: Flavour, F: Format> World<'_, 's, 'v, C, F> {
    /// The place that a step for `place` is about.
    pub fn place(&self, place: usize) -> usize {
        if self.places[place].borrow().is_some() { place } else { 0 }
    }

    /// A handle of the space that a step for `place` is about.
    pub fn space(&self, place: usize) -> Handle<'s, 'v, C, F> {
        self.places[self.place(place)].borrow().clone().expect("the first place is never empty")
    }

    /// The spaces that there are, by their places.
    pub fn spaces(&self) -> impl Iterator<Item = (usize, Handle<'s, 'v, C, F>)> {
        self.places.iter().enumerate().filter_map(|(place, space)| Some((place, space.borrow().clone()?)))
    }

    /// Recounts everything. The caller runs on a CPU.
    pub fn recount(&self) -> Result<(), String> {
        let handles: Vec<_> = self.spaces().map(|(_, space)| space).collect();
        let spaces: Vec<&AddressSpace<'_, _>> = handles.iter().map(|space| &**space).collect();
        QuiescentSystem { machine: self.machine, vm: self.vm, spaces: &spaces, path: self.path }.recount()
    }

    /// The mappings of all spaces.
    pub fn mappings(&self) -> Vec<Vec<VmaAttributes>> {
        let mappings = |space: Handle<'_, '_, C, F>| {
            let mut list = Vec::new();
            space.inspect().each_vma(|vma| list.push(*vma));
            list
        };
        self.spaces().map(|(_, space)| mappings(space)).collect()
    }

    /// Forks a space into a place, which is free or left alone.
    fn fork(&self, space: &AddressSpace<'v, SoftMachine<C, F>>, child: usize) -> StepResult {
        if self.places[child].borrow().is_some() {
            return StepResult::Skipped;
        }
        match space.fork().and_then(|forked| self.registry.insert(forked)) {
            Ok(forked) => {
                self.places[child].replace(Some(forked));
                StepResult::Done(0)
            }
            Err(error) => StepResult::Refused(error.into()),
        }
    }

    /// Does an operation in a space, which the calling CPU runs.
    pub fn perform(&self, at: usize, operation: &Operation) -> StepResult {
        let space = &*self.space(at);
        let done = |result: Result<u64, Errno>| result.map_or_else(StepResult::Refused, StepResult::Done);
        match operation {
            Operation::Fork { child } => self.fork(space, *child),
            Operation::End { child } => {
                let ended = self.places[*child].take();
                if ended.is_some() { StepResult::Done(0) } else { StepResult::Skipped }
            }
            Operation::Call(call) => StepResult::Call(Driver { machine: self.machine, space }.call(call)),
            Operation::Map(request) => done(space.map(request).map(|at| at.0).map_err(Errno::from)),
            Operation::Protect { addr, len, flags } => {
                done(space.protect(VirtAddr(*addr), *len, *flags).map(|()| 0).map_err(Errno::from))
            }
            Operation::Share { space: other, from, request } => {
                let Some((from, request)) = self.source(*other, *from, request) else {
                    return StepResult::Done(0);
                };
                let other = self.space(*other);
                let Some((object, first)) = other.object_at(VirtAddr(from)) else {
                    return StepResult::Done(0);
                };
                let mapped = space.map(&request.backed_by(object.at_page(first)));
                done(mapped.map(|at| at.0).map_err(Errno::from))
            }
            Operation::Bind { addr, len, mode, nodes, flags } => {
                done(linux::mbind(space, *addr, *len, *mode, || Ok(*nodes), *flags).map(|()| 0))
            }
            Operation::Fault { addr, access } => {
                let fault = space.fault(Fault { addr: VirtAddr(*addr), access: *access });
                fault.map_or_else(StepResult::Fault, |_| StepResult::Done(0))
            }
            Operation::Look { addr, len, request } => {
                let at = VirtAddr(*addr);
                let looked = (space.inspect().vma_at(at).is_some(), space.inspect().is_any_mapped(at, *len));
                let _ = (space.inspect().resident_frame(Vpn(addr / PAGE)), space.choose_place(request));
                StepResult::Done(u64::from(looked.0) + 2 * u64::from(looked.1))
            }
        }
    }

    /// Where shared memory is taken from, and the request with a length that fits there.
    fn source(
        &self,
        other: usize,
        from: Source,
        request: &MapRequest<'static>,
    ) -> Option<(u64, MapRequest<'static>)> {
        let Source::Part { which, offset } = from else {
            let Source::At(addr) = from else { return None };
            return Some((addr, *request));
        };
        let mut shared = Vec::new();
        self.space(other).inspect().each_vma(|vma| {
            if !vma.is_anonymous() {
                shared.push(vma.range);
            }
        });
        let range = shared.get(which.checked_rem(shared.len() as u64)? as usize)?;
        let first = offset % range.len();
        let pages = (request.len_bytes / PAGE).clamp(1, range.len() - first);
        Some(((range.start.0 + first) * PAGE, MapRequest { len_bytes: pages * PAGE, ..*request }))
    }

    /// Plans the failure of an allocation.
    pub fn plan(&self, refusal: Refusal) {
        match refusal {
            Refusal::Nth(nth) => self.vm.memory().plan_mishap(nth),
            Refusal::From(nth) => self.vm.memory().plan_mishaps_from(nth),
        }
    }

    /// Cancels what is planned. Returns whether an allocation has failed.
    pub fn cancel(&self) -> bool {
        let happened = !self.vm.memory().is_mishap_planned();
        self.vm.memory().plan_mishap(0);
        happened
    }
}

impl StepResult {
    /// Whether the operation was refused for lack of memory, or for a limit.
    pub fn is_lack(&self, operation: &Operation) -> bool {
        match (self, operation) {
            (StepResult::Call(CallResult::Value(end)), Operation::Call(Call::Brk { addr })) => end != addr,
            (StepResult::Call(CallResult::Error(errno)) | StepResult::Refused(errno), _) => {
                matches!(*errno, Errno::ENOMEM | Errno::EAGAIN)
            }
            (StepResult::Fault(error), _) => *error == FaultError::NoMemory,
            _ => false,
        }
    }

    /// Whether it was refused, for whatever reason.
    pub fn is_refused(&self) -> bool {
        matches!(
            self,
            StepResult::Call(CallResult::Error(_) | CallResult::Segv(_))
                | StepResult::Refused(_)
                | StepResult::Fault(_)
        )
    }
}
