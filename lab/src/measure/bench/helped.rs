//! Are large ranges populated, and large spaces torn down, faster with a helper than without?

use super::{Benchmark, Figure, Options, paired};
use crate::error::Failure;
use crate::measure::timed_machine::{self, TimedMachine};
use interleaf::space::{AddressSpace, Layout, MapRequest, Path, Vm};
use interleaf::table::format::X86_64;
use interleaf::units::PAGE_SIZE;
use std::time::Instant;

/// See the module.
pub const BENCHMARK: Benchmark = Benchmark {
    name: "job.space",
    question: "What does a helper bring to populating a large mapping, and to the end of its space?",
    figures: &["job.populate", "job.teardown"],
    run,
};

fn run(options: &Options) -> Result<Vec<Figure>, Failure> {
    let pages = options.size(1 << 15, 1 << 11);
    let machine = timed_machine::machine(options, pages * 5 / 4)?;
    timed_machine::with_helpers(options, &machine, |workers, vm| {
        let with = |most| {
            workers.set_max_helpers(most);
            times(vm, pages)
        };
        let figure = |name, which: fn([f64; 2]) -> f64| {
            paired(options, name, "ns a page", || which(with(u32::MAX)), "one thread", || which(with(0)))
        };
        vec![figure("job.populate", |[populate, _]| populate), figure("job.teardown", |[_, end]| end)]
    })
}

/// Nanoseconds for each page: to populate a mapping of a new space, and to end that.
fn times(vm: &Vm<'_, TimedMachine>, pages: u64) -> [f64; 2] {
    let space = AddressSpace::new(vm, Layout::linux::<X86_64>().overcommit(), Path::Speculative)
        .expect("memory for a root");
    let request = MapRequest { populate: true, ..MapRequest::anonymous(pages * PAGE_SIZE as u64) };
    let began = Instant::now();
    space.map(&request).expect("an empty space has room");
    let populated = began.elapsed();
    let began = Instant::now();
    drop(space);
    let ended = began.elapsed();
    vm.synchronize();
    [populated, ended].map(|took| took.as_nanos() as f64 / pages as f64)
}
