//! What does a mapping cost that is made, touched and unmapped, beside the crates that kernels use for it today?

use super::stage::{self, Stage};
use super::{Bar, Benchmark, Figure, Options, ns_per, paired, yardstick};
use crate::command::Failure;
use crate::soft::Signal;
use interleaf::space::{AddressSpace, Fault, Layout, MapRequest, Path, Vm};
use interleaf::table::format::X86_64;
use interleaf::units::{CpuId, PAGE_SIZE, VirtAddr};

/// See the module.
pub const BENCHMARK: Benchmark = Benchmark {
    name: "space",
    question: "What does a mapping cost that is made, touched and unmapped?",
    figures: &["space.map64", "space.map_unmap"],
    run,
};

fn run(options: &Options) -> Result<Vec<Figure>, Failure> {
    let machine = stage::machine(options, 1 << 13)?;
    let entered = machine.enter(CpuId(0));
    let pinned = options.pin();
    let vm = stage::vm(&machine)?;
    let figures = vec![map64(options, &machine, &vm)?, untouched(options, &vm)?];
    drop((pinned, entered));
    Ok(figures)
}

/// A MiB mapped and unmapped without a touch.
fn untouched(options: &Options, vm: &Vm<'_, Stage>) -> Result<Figure, Failure> {
    let times = options.size(10_000, 10);
    let space = AddressSpace::new(vm, Layout::linux::<X86_64>(), Path::Speculative).map_err(Failure::of)?;
    let request = MapRequest::anonymous(1 << 20);
    let ours = || {
        ns_per(times, || {
            let base = space.map(&request).expect("an empty space has room");
            space.unmap(base, request.len_bytes).expect("it is mapped");
        })
    };
    Ok(super::alone(options, "space.map_unmap", "ns", ours))
}

/// 64 pages mapped, written to, and unmapped.
fn map64(options: &Options, machine: &Stage, vm: &Vm<'_, Stage>) -> Result<Figure, Failure> {
    const PAGES: u64 = 64;
    let times = options.size(200, 2);
    let space = AddressSpace::new(vm, Layout::linux::<X86_64>(), Path::Speculative).map_err(Failure::of)?;
    let running = space.run();
    let faults = |addr, access| space.fault(Fault { addr, access }).map(drop).map_err(|_| Signal::Segv);
    let request = MapRequest::anonymous(PAGES * PAGE_SIZE as u64);
    let ours = || {
        ns_per(times, || {
            let base = space.map(&request).expect("an empty space has room");
            for page in 0..PAGES {
                let addr = VirtAddr(base.0 + page * PAGE_SIZE as u64);
                machine.write_u64(addr, 1, &faults).expect("the mapping is writable");
            }
            space.unmap(base, request.len_bytes).expect("it is mapped");
        })
    };
    let theirs = yardstick::spaces::map_touch_unmap(PAGES as usize, times);
    let yardstick = "ax-memory-set + ax-page-table-multiarch";
    let figure = paired(options, "space.map64", "ns", ours, yardstick, theirs).with_bar(Bar::AtMost(1.0));
    drop(running);
    Ok(figure)
}
