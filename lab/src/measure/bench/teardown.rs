//! What does it take to clear the entries of a large mapping, and which CPUs does that interrupt?
//!
//! `teardown.unhook` and `teardown.whole` are nanoseconds for each huge entry of a guest of 496 GiB,
//! cleared by munmap: where no CPU runs the space, so that there is nothing to flush, and where this CPU
//! does. Each is held against a loop that clears as many words and does nothing else. The entries map
//! PFN-mapped frames: no record belongs to them. `teardown.base` is a page of private memory, against
//! a loop that clears a word and changes a record's count for each. `teardown.jobs` and
//! `teardown.jobs_base` are the same calls with a helper, against one CPU. `teardown.interrupts` counts
//! those of other CPUs in a munmap of the guest while one runs the space too, beside one for each entry;
//! `teardown.interrupts_nowhere` where none runs it.

use super::{Bar, Benchmark, Figure, Options, paired};
use crate::error::Failure;
use crate::measure::teardown::{Unmapping, Way};
use crate::measure::timed_machine::{self, TimedMachine};
use interleaf::space::{AddressSpace, Layout, MapRequest, Path, Vm};
use interleaf::table::format::X86_64;
use interleaf::units::PAGE_SIZE;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// See the module.
pub const BENCHMARK: Benchmark = Benchmark {
    name: "teardown",
    question: "What does it take to clear the entries of a large mapping, and whom does it interrupt?",
    figures: &[
        "teardown.unhook",
        "teardown.whole",
        "teardown.jobs",
        "teardown.base",
        "teardown.jobs_base",
        "teardown.interrupts",
        "teardown.interrupts_nowhere",
    ],
    run,
};

/// Huge entries of a guest of 496 GiB.
const ENTRIES: u64 = 253_952;
const LOOP: &str = "a loop over as many words";

fn run(options: &Options) -> Result<Vec<Figure>, Failure> {
    let entries = options.size(ENTRIES, 1500);
    let one_cpu = Options { cpus: options.cpus[..1].to_vec(), ..options.clone() };
    let (alone, beside) = (Unmapping::new(&one_cpu, entries), Unmapping::new(options, entries));
    let ns = |unmapping: &Unmapping<'_>, way| {
        unmapping.run(way).expect("memory for the tables").ns / entries as f64
    };
    let against_loop = |name, way| {
        paired(options, name, "ns/entry", || ns(&alone, way), LOOP, || ns(&alone, Way::Words))
            .with_bar(Bar::AtMost(2.0))
    };
    let mut figures = vec![
        against_loop("teardown.unhook", Way::RunNowhere),
        against_loop("teardown.whole", Way::RunHere),
        paired(
            options,
            "teardown.jobs",
            "ns/entry",
            || ns(&beside, Way::ByJob),
            "one CPU",
            || ns(&alone, Way::RunHere),
        ),
    ];
    figures.extend(base_pages(options)?);
    let (run_twice, broadcast) = (beside.run(Way::RunTwice)?, beside.run(Way::InterruptForEach)?);
    let nowhere = beside.run(Way::RunNowhere)?;
    figures.push(
        Figure::count_beside(
            "teardown.interrupts",
            run_twice.interrupts as f64,
            "interrupts",
            "an interrupt for each entry",
            broadcast.interrupts as f64,
        )
        .with_bar(Bar::AtMost(1.0)),
    );
    figures.push(
        Figure::count("teardown.interrupts_nowhere", nowhere.interrupts as f64, "interrupts")
            .with_bar(Bar::Exactly(0.0)),
    );
    Ok(figures)
}

fn base_pages(options: &Options) -> Result<Vec<Figure>, Failure> {
    let pages = options.size(1 << 16, 1 << 12);
    let machine = timed_machine::machine(options, pages * 5 / 4)?;
    let words: Vec<[AtomicU64; 4]> = (0..pages).map(|_| Default::default()).collect();
    let touch = || {
        let entries: Vec<AtomicU64> = (0..pages).map(AtomicU64::new).collect();
        let began = Instant::now();
        for (entry, record) in entries.iter().zip(&words) {
            std::hint::black_box(entry.swap(0, Relaxed));
            record[2].store(record[1].load(Relaxed), Relaxed);
            record[0].fetch_add(1, Relaxed);
        }
        began.elapsed().as_nanos() as f64 / pages as f64
    };
    timed_machine::with_helpers(options, &machine, |workers, vm| {
        let with = |most| {
            workers.set_max_helpers(most);
            unmap_written(vm, pages)
        };
        vec![
            paired(options, "teardown.base", "ns/page", || with(0), "entries and records touched", touch),
            paired(options, "teardown.jobs_base", "ns/page", || with(u32::MAX), "one CPU", || with(0)),
        ]
    })
}

/// Nanoseconds for each page, to unmap written memory of a space that this CPU runs.
fn unmap_written(vm: &Vm<'_, TimedMachine>, pages: u64) -> f64 {
    let space = AddressSpace::new(vm, Layout::linux::<X86_64>().overcommit(), Path::Speculative)
        .expect("memory for a root");
    let len_bytes = pages * PAGE_SIZE as u64;
    let request = MapRequest { populate: true, ..MapRequest::anonymous(len_bytes) };
    let base = space.map(&request).expect("an empty space has room");
    let running = space.activate(None);
    let began = Instant::now();
    space.unmap(base, len_bytes).expect("it is mapped");
    let took = began.elapsed();
    drop(running);
    drop(space);
    vm.synchronize();
    took.as_nanos() as f64 / pages as f64
}
