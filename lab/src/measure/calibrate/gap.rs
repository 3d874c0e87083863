//! What is left of a fault of this host's, once everything else is counted: the time between two accesses,
//! and how much of its zeroing a fault does not wait for.
//!
//! A fault is timed on the host whose frame was zeroed before. The same faults are predicted with gaps of 0
//! and of 1 ns, and with pages that cost nothing: the difference of the two is the number of gaps in a fault.
//! Then a fault is timed that zeroes. It takes less than the fault and the zeroing: the rest drains while the
//! CPU goes on.

use super::{Measured, Numbers, Samples};
use crate::error::Failure;
use crate::machine::sim::{Costs, Profile};
use crate::machine::soft::Signal;
use crate::measure::predicted::Predicted;
use crate::measure::{Options, timed_machine};
use crate::os::affinity;
use interleaf::frame::Priority;
use interleaf::space::{AddressSpace, Advice, Fault, Layout, MapRequest, Path};
use interleaf::table::format::X86_64;
use interleaf::units::{Access, CpuId, PAGE_SIZE, VirtAddr};
use std::time::Instant;

const PAGE: u64 = PAGE_SIZE as u64;
/// Pages that are touched in a sample, as the workload `page_fault1` does.
const PAGES: u64 = 64;
const SAMPLES: usize = 4000;
/// Lines of a page.
const LINES: f64 = 64.0;

pub(super) fn measure(options: &Options, profile: &Profile, numbers: &mut Numbers) -> Result<(), Failure> {
    let (bare, whole) = (fault_on_host(options, Zeroed::Before)?, fault_on_host(options, Zeroed::ByFault)?);
    let (without, with) = (predicted(profile, 0)?, predicted(profile, 1000)?);
    let gaps = with - without;
    let how = format!(
        "a fault of {bare:.1} ns whose frame was zeroed before, 10th percentile of {SAMPLES} batches of \
         {PAGES}, less {without:.1} ns of the other numbers, by its {gaps:.0} accesses"
    );
    numbers.insert("gap", Measured::new(((bare - without) / gaps).max(0.0), how));
    let page = profile.costs.zero_warm as f64 / 1000.0;
    let how = format!(
        "a fault of {whole:.1} ns that zeroes, and one of {bare:.1} ns beside a page of {page:.1} ns"
    );
    let left = (1.0 - (whole - bare) / page).clamp(0.0, 1.0) * LINES;
    numbers.insert("store.buffer", Measured::new(left, how));
    Ok(())
}

/// When the frame of a fault was zeroed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Zeroed {
    /// Before, by a caller that did not need it.
    Before,
    /// By the fault.
    ByFault,
}

/// Nanoseconds of a write fault with a frame from the CPU's cache.
fn fault_on_host(options: &Options, zeroed: Zeroed) -> Result<f64, Failure> {
    let _pinned = affinity::pin(options.cpus[0]).ok();
    let machine = timed_machine::machine(options, 8192)?;
    let _entered = machine.enter(CpuId(0));
    let vm = timed_machine::vm(&machine)?;
    let layout = Layout::linux::<X86_64>().overcommit();
    let space = AddressSpace::new(&vm, layout, Path::Speculative).map_err(Failure::of)?;
    let _running = space.activate(None);
    let start = space.map(&MapRequest::anonymous(PAGES * PAGE)).map_err(Failure::of)?;
    let faults =
        |addr, access: Access| space.fault(Fault { addr, access }).map(drop).map_err(|_| Signal::Segv);
    let sample = || {
        if zeroed == Zeroed::Before {
            // What is given back unused is known to be zero, and taken first.
            let alloc = |_| vm.memory().alloc_zeroed(Priority::Normal);
            drop((0..PAGES).map(alloc).collect::<Vec<_>>());
        }
        let began = Instant::now();
        for page in 0..PAGES {
            machine.write_u64(VirtAddr(start.0 + page * PAGE), page, &faults).expect("it is mapped");
        }
        let took = began.elapsed().as_nanos() as f64 / PAGES as f64;
        space.advise(start, PAGES * PAGE, Advice::DontNeed).expect("it is mapped");
        took
    };
    Ok(Samples::take(SAMPLES, sample).at(10))
}

/// Nanoseconds of a fault of one CPU, predicted with this gap, if pages cost nothing.
fn predicted(profile: &Profile, gap_ps: u64) -> Result<f64, Failure> {
    let mut with_gap = profile.clone();
    with_gap.costs = Costs { gap: gap_ps, zero_warm: 0, zero_cold: 0, page_bandwidth: 0, ..profile.costs };
    Predicted::of(&with_gap, "page_fault1", 1, "speculative")?.ns("speculative")
}
