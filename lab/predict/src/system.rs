//! A system on a machine of virtual time: memory, one space, a program for each CPU.

use crate::files::Disk;
use crate::linux::{LinuxLocks, Way};
use crate::sample::{Operations, Sample};
use crate::waits;
use interleaf::space::{AddressSpace, Fault, Layout, Path, Vm, VmOptions};
use interleaf::table::format::X86_64;
use interleaf::units::{Access, CpuId, VirtAddr};
use interleaf_lab::error::Failure;
use interleaf_lab::machine::sim::{self, NodeMachine, Program, Setting, Sim, Stage, measured, meet};
use interleaf_lab::machine::soft::{FaultHandler, Signal, SoftMachine};
use interleaf_lab::machine::watch::Names;
use std::cell::RefCell;

/// The machine: x86-64 tables of four levels.
pub type Machine = SoftMachine<Sim, X86_64>;
/// A space on it.
pub type Space<'v> = AddressSpace<'v, Machine>;

/// What is run: how much memory it takes, what is set up, and what each CPU does.
pub trait Workload: Clone + Send + 'static {
    /// What is set up once for all CPUs.
    type Shared<'v>;

    /// Frames that it takes on so many CPUs, without the system's own.
    fn frames(&self, cpus: u32) -> u64;

    /// Sets it up, in the first space or in more of them, for faults on this path. The caller is on CPU 0.
    fn prepare<'v>(&self, space: &Space<'v>, path: Path, cpus: u32) -> Self::Shared<'v>;

    /// The spaces that it has made.
    fn spaces<'s, 'v: 's>(&self, shared: &'s Self::Shared<'v>) -> Vec<&'s Space<'v>> {
        let _ = shared;
        Vec::new()
    }

    /// How many mappings Linux would lock one by one.
    fn mappings(&self, cpus: u32) -> u32 {
        let _ = cpus;
        1
    }

    /// Of these, the one that a CPU works in.
    fn mapping_of(&self, cpu: u32) -> u32 {
        let _ = cpu;
        0
    }

    /// What a CPU does. No space is loaded yet.
    fn run<'v>(&self, on: &System<'_, 'v>, shared: &Self::Shared<'v>) -> Operations;
}

/// What the program of a CPU works on.
pub struct System<'s, 'v> {
    /// The first space.
    pub space: &'s Space<'v>,
    /// The CPU.
    pub cpu: u32,
    /// Number of CPUs.
    pub nr_cpus: u32,
    /// Linux's locks of the process, and the mapping that this CPU works in, where faults go that way.
    pub(crate) linux: Option<(&'s LinuxLocks, u32)>,
}

impl System<'_, '_> {
    /// A store to the first word of a page, with the fault that it takes.
    pub fn write(&self, page: VirtAddr) {
        self.space.vm().machine().write_u64(page, page.0, self).expect("it is mapped");
    }

    /// A load of the first word of a page, with the fault that it takes.
    pub fn read(&self, page: VirtAddr) {
        self.space.vm().machine().read_u64(page, self).expect("it is mapped");
    }

    /// Stores to these pages while all CPUs run their spaces; counted in `done` where that is wanted. No CPU
    /// runs a space afterwards: where frames are given back then, no flush disturbs what is measured.
    pub fn write_together(
        &self,
        pages: impl Iterator<Item = VirtAddr>,
        is_measured: bool,
        done: &mut Operations,
    ) {
        let running = self.space.activate(None);
        meet();
        if is_measured {
            measured(|| pages.for_each(|page| done.operation(|done| done.fault(|| self.write(page)))));
        } else {
            pages.for_each(|page| self.write(page));
        }
        meet();
        drop(running);
        meet();
    }
}

impl System<'_, '_> {
    /// Does a call that changes mappings.
    pub fn call<R>(&self, call: impl FnOnce() -> R) -> R {
        match self.linux {
            Some((locks, mapping)) => locks.call(mapping, call),
            None => call(),
        }
    }

    /// Does a call that drops contents.
    pub fn discard<R>(&self, call: impl FnOnce() -> R) -> R {
        match self.linux {
            Some((locks, _)) => locks.discard(call),
            None => call(),
        }
    }
}

impl FaultHandler for System<'_, '_> {
    fn fault(&self, addr: VirtAddr, access: Access) -> Result<(), Signal> {
        let fault = || self.space.fault(Fault { addr, access }).map(drop).map_err(|_| Signal::Segv);
        match self.linux {
            Some((locks, mapping)) => locks.fault(mapping, fault),
            None => fault(),
        }
    }
}

/// Frames that each CPU's caches, stacks of records and tables take, and those of the system.
const FRAMES_OF_CPU: u64 = 160;
const FRAMES_OF_SYSTEM: u64 = 8192;

/// The layout of each space: Linux's, and memory is granted without counting.
pub(crate) fn layout() -> Layout {
    Layout::linux::<X86_64>().overcommit()
}

/// Runs a workload on so many CPUs.
///
/// # Errors
/// What the host says, or how the run failed.
pub fn run(
    setting: Setting,
    workload: &impl Workload,
    way: impl Into<Way>,
    cpus: u32,
) -> Result<Sample, Failure> {
    let (workload, way) = (workload.clone(), way.into());
    let whole = move |stage: &Stage| sample(stage, &workload, way, cpus);
    sim::run(setting, whole).map_err(|verdict| Failure::check(format!("{cpus} CPUs: {verdict}")))?
}

/// A space, on a line of its own: what lies on the fiber's stack beside it is not the library's.
#[repr(align(128))]
struct Apart<T>(T);

fn sample<W: Workload>(stage: &Stage, workload: &W, way: Way, cpus: u32) -> Result<Sample, Failure> {
    let used = workload.frames(cpus);
    let frames = used + used / 8 + u64::from(cpus) * FRAMES_OF_CPU + FRAMES_OF_SYSTEM;
    let machine = NodeMachine::<X86_64>::new(stage.setting(), cpus, frames)?;
    let soft = machine.soft();
    let entered = soft.enter(CpuId(0));
    let memory = machine.boot_map().claim(soft).map_err(Failure::of)?;
    let options = VmOptions { pager: Some(&Disk), ..VmOptions::default() };
    let vm = Apart(Vm::start(memory, options).map_err(Failure::of)?);
    let space = Apart(AddressSpace::new(&vm.0, layout(), way.path()).map_err(Failure::of)?);
    let shared = workload.prepare(&space.0, way.path(), cpus);
    let locks = way.locks(cpus, workload.mappings(cpus));
    drop(entered);
    let done: Vec<_> = (0..cpus).map(|_| RefCell::new(Operations::default())).collect();
    let programs = (0..).zip(&done).map(|(cpu, done)| -> Program<'_> {
        let linux = locks.as_ref().map(|locks| (locks, workload.mapping_of(cpu)));
        let (system, shared) = (System { space: &space.0, cpu, nr_cpus: cpus, linux }, &shared);
        Box::new(move || {
            done.replace(workload.run(&system, shared));
        })
    });
    let report = stage.run(&machine, programs.collect());
    let _entered = soft.enter(CpuId(0));
    let spaces = [&space.0].into_iter().chain(workload.spaces(&shared));
    let names = Names::of_now(soft, &vm.0, &spaces.collect::<Vec<_>>());
    let waits = waits::named(&report, &names);
    drop(shared);
    drop(space);
    let cpus: Vec<_> = done.into_iter().map(RefCell::into_inner).collect();
    Ok(Sample::new(&cpus, &report, waits))
}
