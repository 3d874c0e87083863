//! How fast is memory copied by a collapse?
//!
//! `thp.collapse` makes huge pages of regions full of base pages, in more memory than the caches hold: the
//! look at them, the block, the freeze, the copy, the replacement, and what is freed. The yardstick copies as
//! many bytes of the host's memory, a page after the other.

use super::{Arena, Bar, Benchmark, Figure, Options, paired};
use crate::error::Failure;
use crate::measure::timed_machine::{self, TimedMachine};
use interleaf::space::{AddressSpace, Advice, Counter, Layout, MapRequest, Path, Place, Vm};
use interleaf::table::format::X86_64;
use interleaf::units::{CpuId, PageSize, VirtAddr};
use interleaf::vma::HugePolicy;
use std::time::Instant;

/// See the module.
pub const BENCHMARK: Benchmark = Benchmark {
    name: "thp.copy",
    question: "How fast does a collapse copy memory?",
    figures: &["thp.collapse"],
    run,
};

const HUGE_BYTES: u64 = PageSize::Huge.bytes();
/// Where the space maps its memory.
const BASE: VirtAddr = VirtAddr(1 << 40);

fn run(options: &Options) -> Result<Vec<Figure>, Failure> {
    let regions = options.size(64, 3);
    let pinned = options.pin();
    let machine = timed_machine::machine(options, (2 * regions + 4) * 512 + 4096)?;
    let entered = machine.enter(CpuId(0));
    let vm = timed_machine::vm_with(&machine, HugePolicy::Never)?;
    let figure = collapse(options, &vm, regions)?;
    drop((entered, pinned));
    Ok(vec![figure])
}

fn collapse<'v>(options: &Options, vm: &'v Vm<'v, TimedMachine>, regions: u64) -> Result<Figure, Failure> {
    let space = AddressSpace::new(vm, Layout::linux::<X86_64>().overcommit(), Path::Speculative)
        .map_err(Failure::of)?;
    let len_bytes = regions * HUGE_BYTES;
    let ours = || {
        let request = MapRequest { place: Place::Fixed(BASE), ..MapRequest::anonymous(len_bytes) };
        space.map(&request).expect("nothing else is there");
        space.advise(BASE, len_bytes, Advice::PopulateWrite).expect("there is memory");
        let start = Instant::now();
        space.collapse(BASE, len_bytes).expect("there are blocks");
        let taken = start.elapsed().as_nanos() as f64 / regions as f64;
        space.unmap(BASE, len_bytes).expect("it is mapped");
        vm.trim();
        taken
    };
    let mut arenas = [Arena::new(len_bytes as usize), Arena::new(len_bytes as usize)];
    let theirs = || {
        let start = Instant::now();
        let [from, to] = &mut arenas;
        for (from, to) in from.frames().iter().zip(to.frames()) {
            std::hint::black_box(&mut *to).0.copy_from_slice(&std::hint::black_box(from).0);
        }
        start.elapsed().as_nanos() as f64 / regions as f64
    };
    let figure = paired(options, "thp.collapse", "ns", ours, "memcpy of as many bytes", theirs);
    let failed = vm.totals().get(Counter::ThpCollapseAllocFailed);
    if failed > 0 {
        return Err(Failure::check(format!("{failed} collapses found no block")));
    }
    // At least 70 % of the yardstick's rate.
    Ok(figure.with_bar(Bar::AtMost(1.0 / 0.7)))
}
