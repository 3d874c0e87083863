//! Getters and the shrinker of the huge zero page, on real frames and records: any number of steps of one
//! may come between two of another, and a thread that is stopped between any two keeps no other from ending.

use super::*;
use crate::frame::{BootMap, Region, RegionKind};
use crate::machine::testing::{TestCpu, TestMachine, with_leaked};
use crate::sync::refill_zeros;
use crate::sync::testing::{run_model, thread};
use crate::units::{NodeId, PAGE_SIZE};
use std::boxed::Box;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed as HostRelaxed};

type Use = HugeZeroUse<TestCpu>;
type TestMemory = Memory<'static, TestMachine>;

const AT_ONCE: Option<Priority> = Some(Priority::NoWait);

/// Runs both parts, on memory in which `used` says whether the page is there before; returns how often the
/// parts' results, below 4, were what.
fn explore(preemptions: usize, used: bool, parts: [fn(&'static TestMemory) -> usize; 2]) -> [[usize; 4]; 2] {
    let seen: &'static [[AtomicUsize; 4]; 2] = Box::leak(Box::default());
    run_model(preemptions, move || {
        with_leaked(TestMachine::with_cpus(2048 + 64, 2), |machine| {
            let (start, len_bytes) =
                (machine.frames().start.addr(), machine.frames().len() * PAGE_SIZE as u64);
            let kind = RegionKind::Usable(Init::Zeroed);
            let map = BootMap::new(&[Region { start, len_bytes, kind, node: NodeId(0) }]).unwrap();
            with_leaked(Memory::new(machine, map).unwrap(), |memory| {
                let allocated = memory.check().unwrap().allocated;
                if used {
                    let mut before = Use::new();
                    before.take(memory, AT_ONCE).unwrap();
                    before.put_all(memory);
                }
                refill_zeros();
                let other = thread::spawn(move || {
                    TestCpu::become_cpu(1);
                    parts[1](memory)
                });
                let here = parts[0](memory);
                let there = other.join().unwrap();
                seen[0][here].fetch_add(1, HostRelaxed);
                seen[1][there].fetch_add(1, HostRelaxed);
                // What is left is unused: it goes, and nothing else is missing.
                let there_is = memory.zero_pages().huge_frames();
                assert_eq!(memory.check().unwrap().allocated, allocated + there_is);
                assert_eq!(memory.zero_pages().shrink(), there_is, "a reference is left");
                assert_eq!(memory.check().unwrap().allocated, allocated);
            });
        });
    });
    seen.each_ref().map(|part| part.each_ref().map(|count| count.load(HostRelaxed)))
}

/// Uses the page as a space does. 0: it was there; 1: allocated for this.
fn begin_use_and_end(memory: &'static TestMemory) -> usize {
    let mut user = Use::new();
    let (pfn, how) = user.take(memory, AT_ONCE).expect("there is memory for two");
    // The mark was written by the getter that allocated it: without a reference it may be gone at once.
    assert!(memory.zero_pages().is_huge_zero(pfn), "a space maps what is no zero page");
    user.put_all(memory);
    usize::from(how == Taken::Allocated)
}

/// 0: nothing to be had; 1: freed.
fn shrink(memory: &'static TestMemory) -> usize {
    usize::from(memory.zero_pages().shrink() > 0)
}

#[test]
fn loom_two_getters_that_both_allocate_use_one_page() {
    let [here, there] = explore(3, false, [begin_use_and_end, begin_use_and_end]);
    for part in [here, there] {
        assert!(part[0] > 0 && part[1] > 0, "each is first, and second: {here:?} {there:?}");
    }
}

#[test]
fn loom_a_getter_meets_a_shrinker_stopped_anywhere() {
    let [got, shrunk] = explore(3, true, [begin_use_and_end, shrink]);
    assert!(got[0] > 0 && got[1] > 0, "it gets the old page, and a new one: {got:?}");
    assert!(shrunk[0] > 0 && shrunk[1] > 0, "it finds it used, and unused: {shrunk:?}");
}

#[test]
fn loom_the_last_put_meets_a_get_and_the_shrinker_in_between() {
    let [got, _] = explore(
        3,
        true,
        [begin_use_and_end, |memory| {
            let mut user = Use::new();
            user.take(memory, AT_ONCE).expect("there is memory for two");
            shrink(memory);
            user.put_all(memory);
            0
        }],
    );
    assert!(got[0] > 0 && got[1] > 0, "it gets the old page, and a new one: {got:?}");
}

/// Two faults of one space: the space has one reference, however they meet.
#[test]
fn loom_two_threads_of_a_space_take_one_reference() {
    run_model(3, || {
        with_leaked(TestMachine::with_cpus(2048 + 64, 2), |machine| {
            let (start, len_bytes) =
                (machine.frames().start.addr(), machine.frames().len() * PAGE_SIZE as u64);
            let kind = RegionKind::Usable(Init::Zeroed);
            let map = BootMap::new(&[Region { start, len_bytes, kind, node: NodeId(0) }]).unwrap();
            with_leaked(Memory::new(machine, map).unwrap(), |memory| {
                let allocated = memory.check().unwrap().allocated;
                let at = Box::into_raw(Box::new(Use::new()));
                // SAFETY: from `into_raw`, and freed below, after the thread has ended.
                let user: &'static Use = unsafe { &*at };
                refill_zeros();
                let other = thread::spawn(move || {
                    TestCpu::become_cpu(1);
                    user.take(memory, AT_ONCE).unwrap().0
                });
                let here = user.take(memory, AT_ONCE).unwrap().0;
                assert_eq!(here, other.join().unwrap());
                assert!(user.holds(memory, here) && memory.zero_pages().is_huge_zero(here));
                // SAFETY: from `into_raw`, and not used any more.
                unsafe { Box::from_raw(at) }.put_all(memory);
                assert_eq!(memory.zero_pages().shrink(), 512, "a second reference was kept");
                assert_eq!(memory.check().unwrap().allocated, allocated);
            });
        });
    });
}
