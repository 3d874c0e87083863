//! How much memory does the library keep for itself: for each frame, mapping, CPU, and GiB that is mapped?
//!
//! Nothing is added up from the sizes of types: each figure is the difference between two machines, or two
//! moments of one, that differ in nothing else. So it holds padding, rounding, and what the boot keeps.

use super::{Benchmark, Figure, Options};
use crate::error::Failure;
use crate::machine::soft::{Fill, MachineConfig, SoftMachine};
use crate::measure::timed_machine::{self, TimedMachine};
use interleaf::space::{AddressSpace, Fault, Layout, MapRequest, Path, Place, Vm};
use interleaf::table::format::X86_64;
use interleaf::units::{Access, CpuId, PAGE_SIZE, Pfn, PfnRange, VirtAddr};

/// See the module.
pub const BENCHMARK: Benchmark = Benchmark {
    name: "metadata",
    question: "How much memory does the library keep for itself?",
    figures: &["metadata.per_frame", "metadata.per_mapping", "metadata.per_cpu", "metadata.per_gib"],
    run,
};

/// Bytes of a page, or of a frame.
const PAGE: f64 = PAGE_SIZE as f64;

fn run(options: &Options) -> Result<Vec<Figure>, Failure> {
    Ok(vec![per_frame(options)?, per_mapping(options)?, per_cpu()?, per_gib(options)?])
}

/// A machine whose memory costs the host nothing before it is touched.
fn machine(nr_cpus: u32, frames: u64) -> Result<TimedMachine, Failure> {
    let first = Pfn(1 << 8);
    let regions = vec![PfnRange::new(first, first.add(frames))];
    Ok(SoftMachine::new(&MachineConfig { nr_cpus, regions, fill: Fill::Untouched })?)
}

/// Frames that a machine does not give away, because the library keeps them.
fn kept(nr_cpus: u32, frames: u64) -> Result<f64, Failure> {
    let machine = machine(nr_cpus, frames)?;
    let _entered = machine.enter(CpuId(0));
    let vm = timed_machine::vm(&machine)?;
    Ok((frames - vm.memory().stats().managed) as f64)
}

fn per_frame(options: &Options) -> Result<Figure, Failure> {
    let frames = options.size(1 << 18, 1 << 14);
    let more = kept(1, 2 * frames)? - kept(1, frames)?;
    Ok(Figure::count("metadata.per_frame", more * PAGE / frames as f64, "bytes"))
}

fn per_cpu() -> Result<Figure, Failure> {
    const CPUS: u32 = 64;
    let more = kept(CPUS + 1, 1 << 14)? - kept(1, 1 << 14)?;
    Ok(Figure::count("metadata.per_cpu", more * PAGE / f64::from(CPUS), "bytes"))
}

/// A space that takes any number of mappings.
fn space<'v>(vm: &'v Vm<'v, TimedMachine>) -> Result<AddressSpace<'v, TimedMachine>, Failure> {
    let layout = Layout { max_mappings: usize::MAX / 2, ..Layout::linux::<X86_64>().overcommit() };
    AddressSpace::new(vm, layout, Path::Speculative).map_err(Failure::of)
}

/// Records and nodes of the index for many mappings, made in the order of their addresses.
fn per_mapping(options: &Options) -> Result<Figure, Failure> {
    let nr_mappings = options.size(100_000, 2_000);
    let machine = machine(1, 1 << 15)?;
    let _entered = machine.enter(CpuId(0));
    let vm = timed_machine::vm(&machine)?;
    let space = space(&vm)?;
    let before = vm.memory().stats().allocated();
    for index in 0..nr_mappings {
        let place = Place::Fixed(VirtAddr((1 << 30) + index * 2 * PAGE_SIZE as u64));
        space.map(&MapRequest { place, ..MapRequest::anonymous(PAGE_SIZE as u64) }).map_err(Failure::of)?;
    }
    vm.trim();
    let frames = vm.memory().stats().allocated() - before;
    drop(space);
    Ok(Figure::count("metadata.per_mapping", frames as f64 * PAGE / nr_mappings as f64, "bytes"))
}

/// Tables for memory that is present page by page. It is read, not written: all pages map the page of zeros,
/// and tables are all that takes frames. At small size a part of the GiB stands for it.
fn per_gib(options: &Options) -> Result<Figure, Failure> {
    let parts = options.size(1, 32);
    let len_bytes = (1 << 30) / parts;
    let machine = machine(1, 1 << 13)?;
    let _entered = machine.enter(CpuId(0));
    let vm = timed_machine::vm(&machine)?;
    let space = space(&vm)?;
    let base = space.map(&MapRequest::anonymous(len_bytes)).map_err(Failure::of)?;
    let before = vm.memory().stats().allocated();
    for offset in (0..len_bytes).step_by(PAGE_SIZE) {
        let fault = Fault { addr: VirtAddr(base.0 + offset), access: Access::Read };
        space.fault(fault).map_err(Failure::of)?;
    }
    let frames = vm.memory().stats().allocated() - before;
    drop(space);
    Ok(Figure::count("metadata.per_gib", (frames * parts) as f64 * PAGE, "bytes"))
}
