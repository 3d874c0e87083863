//! The machine that the library's own figures are taken on: host CPUs, dirty memory, nothing observed.

use super::Options;
use super::fault::Disk;
use super::garbage::MeasuredVm;
use crate::error::Failure;
use crate::machine::host::Host;
use crate::machine::soft::{Fill, MachineConfig, SoftMachine};
use crate::os::affinity;
use interleaf::frame::{BootMap, Init, Memory, Region, RegionKind};
use interleaf::space::{Vm, VmOptions};
use interleaf::table::format::X86;
use interleaf::units::{CpuId, NodeId, Pfn, PfnRange};
use interleaf::vma::{HugePolicy, MthpPolicies};
use interleaf::work::WorkerPool;

/// The timed machine with x86-64 tables of four levels.
pub type TimedMachine = SoftMachine<Host, X86<false>>;

/// Number of CPUs of the machine: as many as the host allows, two at most.
pub fn nr_cpus(options: &Options) -> u32 {
    options.cpus.len().min(2) as u32
}

/// A machine with `frames` frames of dirty memory.
pub fn machine(options: &Options, frames: u64) -> Result<TimedMachine, Failure> {
    let first = Pfn(1 << 8);
    let regions = vec![PfnRange::new(first, first.add(frames))];
    Ok(SoftMachine::new(&MachineConfig { nr_cpus: nr_cpus(options), regions, fill: Fill::Dirty })?)
}

/// All of a machine's memory, for the library.
pub fn boot_map(machine: &TimedMachine) -> Result<BootMap, Failure> {
    let region = |range: &PfnRange| Region {
        start: range.start.addr(),
        len_bytes: range.len() * 4096,
        kind: RegionKind::Usable(Init::Dirty),
        node: NodeId(0),
    };
    let regions: Vec<Region> = machine.arena().regions().iter().map(region).collect();
    BootMap::new(&regions).map_err(|e| Failure::check(format!("boot map: {e}")))
}

/// The library on `machine`; the caller runs on one of its CPUs. Its garbage is noted when it ends.
pub fn vm(machine: &TimedMachine) -> Result<MeasuredVm<'_>, Failure> {
    vm_with(machine, HugePolicy::Never)
}

/// As [`vm`], with huge pages as the policy says.
pub fn vm_with(machine: &TimedMachine, policy: HugePolicy) -> Result<MeasuredVm<'_>, Failure> {
    vm_with_sizes(machine, policy, MthpPolicies::NEVER)
}

/// As [`vm_with`], and with mTHP folios.
pub fn vm_with_sizes(
    machine: &TimedMachine,
    policy: HugePolicy,
    sizes: MthpPolicies,
) -> Result<MeasuredVm<'_>, Failure> {
    let options = VmOptions { huge_pages: policy, mthp: sizes, pager: Some(&Disk), ..VmOptions::default() };
    let memory = boot_map(machine)?.claim(machine).map_err(Failure::of)?;
    Ok(MeasuredVm(Vm::start(memory, options).map_err(Failure::of)?))
}

/// As [`vm`], where a load of a file's page maps those around it, in a window of so many bytes.
pub fn vm_with_fault_around(machine: &TimedMachine, bytes: u64) -> Result<MeasuredVm<'_>, Failure> {
    let options = VmOptions { fault_around_bytes: bytes, pager: Some(&Disk), ..VmOptions::default() };
    let memory = boot_map(machine)?.claim(machine).map_err(Failure::of)?;
    Ok(MeasuredVm(Vm::start(memory, options).map_err(Failure::of)?))
}

/// Runs `run` with the library on `machine` and its worker pool, which has a helper on each CPU but the
/// first; the caller runs on that.
pub fn with_helpers<R>(
    options: &Options,
    machine: &TimedMachine,
    run: impl FnOnce(&WorkerPool<'_, TimedMachine>, &MeasuredVm<'_>) -> R,
) -> Result<R, Failure> {
    with_helpers_and(options, machine, HugePolicy::Never, run)
}

/// As [`with_helpers`], with huge pages as the policy says.
pub fn with_helpers_and<R>(
    options: &Options,
    machine: &TimedMachine,
    policy: HugePolicy,
    run: impl FnOnce(&WorkerPool<'_, TimedMachine>, &MeasuredVm<'_>) -> R,
) -> Result<R, Failure> {
    let cpus = options.cpus[..nr_cpus(options) as usize].to_vec();
    let nr_helpers = cpus.len() as u32 - 1;
    machine.start_helpers((1..=nr_helpers).map(CpuId), move |cpu| {
        std::mem::forget(affinity::pin(cpus[cpu.index()]));
    });
    let _entered = machine.enter(CpuId(0));
    let mut memory = boot_map(machine)?.claim(machine).map_err(Failure::of)?;
    let workers = WorkerPool::spawn(machine, &mut memory.early_allocator()).map_err(Failure::of)?;
    while (1..=nr_helpers).any(|cpu| !workers.has_helper_racy(CpuId(cpu))) {
        std::thread::yield_now();
    }
    let _pinned = options.pin();
    let options = VmOptions { workers: Some(&workers), huge_pages: policy, ..VmOptions::default() };
    let vm = MeasuredVm(Vm::start(memory, options).map_err(Failure::of)?);
    Ok(run(&workers, &vm))
}

/// The library's memory on `machine`; the caller runs on one of its CPUs.
pub fn memory(machine: &TimedMachine) -> Result<Memory<'_, TimedMachine>, Failure> {
    Memory::new(machine, boot_map(machine)?).map_err(|e| Failure::check(format!("memory: {e}")))
}
