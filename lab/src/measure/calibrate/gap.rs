//! The time between two accesses: what is left of a fault of this host's, once everything else is counted.
//!
//! A fault is timed on the host. The same faults are predicted with gaps of 0 and of 1 ns: the difference of
//! the two is the number of gaps in a fault.

use super::{Measured, Samples};
use crate::error::Failure;
use crate::machine::sim::Profile;
use crate::machine::soft::Signal;
use crate::measure::predicted::Predicted;
use crate::measure::{Options, timed_machine};
use crate::os::affinity;
use interleaf::space::{AddressSpace, Advice, Fault, Layout, MapRequest, Path};
use interleaf::table::format::X86_64;
use interleaf::units::{Access, CpuId, PAGE_SIZE, VirtAddr};
use std::time::Instant;

const PAGE: u64 = PAGE_SIZE as u64;
/// Pages that are touched in a sample, as the workload `page_fault1` does.
const PAGES: u64 = 64;
const SAMPLES: usize = 4000;

pub(super) fn measure(options: &Options, profile: &Profile) -> Result<Measured, Failure> {
    let host = fault_on_host(options)?;
    let (without, with) = (predicted(profile, 0)?, predicted(profile, 1000)?);
    let gaps = with - without;
    let how = format!(
        "a fault of {host:.1} ns, 10th percentile of {SAMPLES} batches of {PAGES}, less {without:.1} ns of \
         the other numbers, by its {gaps:.0} accesses"
    );
    Ok(Measured::new(((host - without) / gaps).max(0.0), how))
}

/// Nanoseconds of a write fault with a frame from the CPU's cache.
fn fault_on_host(options: &Options) -> Result<f64, Failure> {
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

/// Nanoseconds of a fault of one CPU, predicted with this gap.
fn predicted(profile: &Profile, gap_ps: u64) -> Result<f64, Failure> {
    let mut with_gap = profile.clone();
    with_gap.costs.gap = gap_ps;
    Predicted::of(&with_gap, "page_fault1", 1, "speculative")?.ns("speculative")
}
