//! What do the library's locks and read sections cost, beside the well-known ones?

use super::{Bar, Benchmark, Figure, Options, ns_per, paired, yardstick};
use crate::error::Failure;
use crate::machine::host::Host;
use crate::measure::timed_machine;
use interleaf::sync::rcu::Rcu;
use interleaf::sync::{RwLock, SpinLock};
use interleaf::units::CpuId;
use std::hint::black_box;

/// See the module.
pub const BENCHMARK: Benchmark = Benchmark {
    name: "sync",
    question: "What do our locks and read sections cost when nobody else wants them?",
    figures: &["sync.share_pair", "sync.spin_pair", "sync.read_section"],
    run,
};

fn run(options: &Options) -> Result<Vec<Figure>, Failure> {
    let _pinned = options.pin();
    let machine = timed_machine::machine(options, 64)?;
    let _entered = machine.enter(CpuId(0));
    let times = options.size(20_000, 100);
    Ok(vec![share_pair(options, times), spin_pair(options, times), read_section(options, times, &machine)?])
}

fn share_pair(options: &Options, times: u64) -> Figure {
    let lock: RwLock<Host, 1> = RwLock::new();
    let ours = || {
        ns_per(times, || {
            drop(black_box(&lock).read());
        })
    };
    let theirs = yardstick::locks::rwlock_read_pair(times);
    // Two locked instructions on both sides, and nothing else that takes time (decision 69).
    paired(options, "sync.share_pair", "ns", ours, "std RwLock, shared", theirs).with_bar(Bar::AtMost(1.02))
}

fn spin_pair(options: &Options, times: u64) -> Figure {
    let lock: SpinLock<u64, Host, 1> = SpinLock::new(0);
    let ours = || ns_per(times, || *black_box(&lock).lock() += 1);
    paired(options, "sync.spin_pair", "ns", ours, "std Mutex", yardstick::locks::mutex_pair(times))
}

fn read_section(
    options: &Options,
    times: u64,
    machine: &timed_machine::TimedMachine,
) -> Result<Figure, Failure> {
    let mut memory = timed_machine::boot_map(machine)?.claim(machine).map_err(Failure::of)?;
    let rcu: Option<Rcu<Host>> = Rcu::carve(&mut memory.early_allocator(), timed_machine::nr_cpus(options));
    let rcu = rcu.ok_or(Failure::check("no memory for read sections"))?;
    let ours = || {
        ns_per(times, || {
            drop(black_box(&rcu).read());
        })
    };
    let theirs = yardstick::epoch::pin(times);
    Ok(paired(options, "sync.read_section", "ns", ours, "crossbeam-epoch pin", theirs)
        .with_bar(Bar::AtMost(1.0)))
}
