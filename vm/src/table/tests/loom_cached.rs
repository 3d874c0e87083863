//! A CPU that walks or sweeps by its last hit, against one that detaches that table, retires it, and uses its
//! frame anew after the grace period.

use super::loom_entries::{Machine, Tree, with_tree};
use crate::frame::{Memory, Priority};
use crate::machine::Entry;
use crate::machine::testing::TestCpu;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::testing::run_model;
use crate::sync::testing::thread;
use crate::sync::{Rcu, refill_zeros};
use crate::table::{PageTable, detach_tables, sweep, walk_cached};
use crate::units::{Level, Vpn, VpnRange};
use core::sync::atomic::AtomicUsize;
use std::boxed::Box;

/// The slot of the root that points to the table.
const SLOT: usize = 3;
/// The slot of the table.
const PAGE_SLOT: usize = 5;
const TABLE: u64 = 512;
const PAGE: Vpn = Vpn(SLOT as u64 * TABLE + PAGE_SLOT as u64);
/// What stands in the table's slot once its frame is used for something else.
const ANEW: u64 = 0xdead_0000;

/// Number of executions, or walks, by what was seen.
#[derive(Debug, Default)]
struct Seen {
    /// The walk ended in the table, and in the root.
    cached: AtomicUsize,
    absent: AtomicUsize,
    /// The table was locked, and it was detached.
    locked: AtomicUsize,
    detached: AtomicUsize,
    /// The frame was used anew.
    anew: AtomicUsize,
}

fn count(what: &AtomicUsize) {
    what.fetch_add(1, Relaxed);
}

/// Walks to the page in a section of its own; then `locks` says whether to lock the table.
fn walk_once(tree: &'static Tree, rcu: &Rcu<'static, TestCpu>, seen: &Seen, locks: bool) {
    let reading = rcu.read();
    let found = walk_cached(tree, PAGE, &reading);
    if found.table.level() != Level::Pte {
        return count(&seen.absent);
    }
    count(&seen.cached);
    let words = [found.word, found.table.read(PAGE_SLOT)];
    assert!(words == [0, 0], "a walk reads a frame that was given away");
    if !locks {
        return;
    }
    let Some(locked) = found.table.lock() else { return count(&seen.detached) };
    assert_eq!(tree.top().entry(SLOT), Entry::Table(found.table.pfn()), "a detached table was locked");
    assert_eq!(found.table.read(PAGE_SLOT), 0, "a table that was given away was locked");
    count(&seen.locked);
    drop(locked);
}

/// Sweeps the page: all that the table that holds it, or the root, may hold there is nothing.
fn sweep_once(tree: &'static Tree, seen: &Seen) {
    sweep(tree, VpnRange::new(PAGE, PAGE.add(1)), |mut run| {
        count(&seen.locked);
        run.each_used(|_, slot, _| panic!("slot {slot} of a frame that was given away"));
    });
}

/// Detaches the table, retires it, lets as many epochs pass as readers allow, and uses its frame anew if it
/// is free.
fn detach_and_use_anew(
    tree: &'static Tree,
    memory: &'static Memory<'static, Machine>,
    rcu: &Rcu<'static, TestCpu>,
    seen: &Seen,
) {
    let range = VpnRange::new(Vpn(SLOT as u64 * TABLE), Vpn((SLOT as u64 + 1) * TABLE));
    let mut detached = None;
    detach_tables(tree, range, range, |table, _| {
        detached = Some(table.pfn());
        table.retire(rcu);
    });
    (0..4).for_each(|_| rcu.poll(memory.machine(), memory));
    let again = memory.alloc_table(Priority::Normal).unwrap();
    if Some(again.pfn()) == detached {
        count(&seen.anew);
        let word = memory.word(again.pfn(), PAGE_SLOT);
        word.store(ANEW, Relaxed);
        // As empty as a table frame has to be when it is freed.
        thread::yield_now();
        word.store(0, Relaxed);
    }
}

/// What the other CPU does meanwhile.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OtherCpu {
    Walks,
    WalksAndLocks,
    Sweeps,
}

fn explore(preemptions: usize, other: OtherCpu) -> &'static Seen {
    let seen: &'static Seen = Box::leak(Box::default());
    run_model(preemptions, move || {
        with_tree(PageTable::new, |tree, memory, rcu| {
            let table = memory.alloc_table(Priority::Normal).unwrap();
            tree.top().lock().unwrap().link(SLOT, table).unwrap();
            // The last hit of CPU 1; the words of both CPUs are touched before there are threads.
            rcu.poll(memory.machine(), memory);
            TestCpu::become_cpu(1);
            walk_once(tree, rcu, seen, false);
            TestCpu::become_cpu(0);
            refill_zeros();
            let walker = thread::spawn(move || {
                TestCpu::become_cpu(1);
                (0..2).for_each(|_| match other {
                    OtherCpu::Sweeps => sweep_once(tree, seen),
                    other => walk_once(tree, rcu, seen, other == OtherCpu::WalksAndLocks),
                });
            });
            detach_and_use_anew(tree, memory, rcu, seen);
            walker.join().unwrap();
            rcu.wait(memory.machine(), memory);
        });
    });
    std::eprintln!("{seen:?}");
    let ends = [&seen.absent, &seen.anew];
    let ends = if other == OtherCpu::Sweeps { &ends[1..] } else { &ends[..] };
    assert!(ends.iter().chain([&&seen.cached]).all(|count| count.load(Relaxed) > 0), "{seen:?}");
    seen
}

#[test]
fn loom_a_cached_table_against_its_detaching_and_reuse() {
    explore(3, OtherCpu::Walks);
}

#[test]
fn loom_a_cached_table_is_not_locked_once_it_is_detached() {
    let seen = explore(2, OtherCpu::WalksAndLocks);
    assert!(seen.locked.load(Relaxed) > 0 && seen.detached.load(Relaxed) > 0, "{seen:?}");
}

#[test]
fn loom_a_sweep_beside_the_detaching_of_its_table() {
    let seen = explore(2, OtherCpu::Sweeps);
    assert!(seen.locked.load(Relaxed) > 0, "{seen:?}");
}
