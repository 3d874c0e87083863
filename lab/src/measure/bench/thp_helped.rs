//! How much faster do huge pages come where a second CPU is idle?
//!
//! `thp.fault_write_two_cpus`: huge pages are made present by write faults, one for each, without helpers and
//! with one, whose CPU has nothing else to do: how many times faster that is. The yardstick is how many times
//! faster two threads zero as much memory of the host, a half each.

use super::thp::{HUGE_BYTES, Room};
use super::{Arena, Bar, Benchmark, Figure, Options, paired, pinned_threads};
use crate::error::Failure;
use crate::measure::timed_machine;
use interleaf::units::PageSize;
use interleaf::vma::{HugePolicy, ThpDisable};
use std::sync::Mutex;

/// See the module.
pub const BENCHMARK: Benchmark = Benchmark {
    name: "thp.helped",
    question: "What does an idle CPU bring to a fault that zeroes a huge page?",
    figures: &["thp.fault_write_two_cpus"],
    run,
};

fn run(options: &Options) -> Result<Vec<Figure>, Failure> {
    let regions = options.size(64, 4);
    let machine = timed_machine::machine(options, (regions + 4) * PageSize::Huge.pages() + 4096)?;
    let cpus = options.cpus[..timed_machine::nr_cpus(options) as usize].to_vec();
    let mut arena = Arena::new((regions * HUGE_BYTES) as usize);
    let blocks: Vec<_> = arena.frames().chunks_mut(PageSize::Huge.pages() as usize).map(Mutex::new).collect();
    let zero = |cpus: &[usize]| {
        let took = pinned_threads::together(cpus, |index| {
            let part = blocks.len() / cpus.len();
            for block in &blocks[index * part..(index + 1) * part] {
                let mut frames = block.lock().expect("no thread panics");
                std::hint::black_box(&mut **frames).iter_mut().for_each(|frame| frame.0.fill(0));
            }
        });
        took.as_secs_f64()
    };
    timed_machine::with_helpers_and(options, &machine, HugePolicy::Always, |workers, vm| {
        let room = Room::new(vm, regions, ThpDisable::None)?;
        let with = |helpers| {
            workers.set_max_helpers(helpers);
            room.first_stores()
        };
        let ours = || with(0) / with(u32::MAX);
        let theirs = || zero(&cpus[..1]) / zero(&cpus);
        let name = "thp.fault_write_two_cpus";
        let figure = paired(options, name, "times", ours, "two threads, memset", theirs);
        Ok(vec![if cpus.len() < 2 { figure } else { figure.with_bar(Bar::AtLeast(0.85)) }])
    })?
}
