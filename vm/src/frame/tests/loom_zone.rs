//! Regions of a zone, between two CPUs.

use super::*;
use crate::frame::{BootMap, FrameState, Init, Memory, Region, RegionKind};
use crate::machine::testing::{TestCpu, TestMachine, with_leaked};
use crate::sync::testing::{run_model, thread};
use crate::units::PAGE_SIZE;

type TestMemory = Memory<'static, TestMachine>;

/// Runs `test` with a memory of three CPUs and three blocks of the largest order, in as many regions. The
/// last one holds the records.
fn with_memory(test: impl FnOnce(&'static TestMemory)) {
    with_leaked(TestMachine::with_cpus(3 * Order::MAX.frames(), 3), |machine| {
        let region = Region {
            start: machine.frames().start.addr(),
            len_bytes: machine.frames().len() * PAGE_SIZE as u64,
            kind: RegionKind::Usable(Init::Dirty),
            node: NodeId(0),
        };
        let memory = Memory::new(machine, BootMap::new(&[region]).unwrap()).unwrap();
        assert!(memory.zones()[0].regions.len() > 1);
        memory.drain();
        with_leaked(memory, test);
    });
}

fn zone(memory: &'static TestMemory) -> &'static Zone<'static, TestCpu> {
    &memory.zones()[0]
}

/// Takes single frames past the cache, as words of one.
fn take<const N: usize>(memory: &'static TestMemory) -> [u64; N] {
    let mut frames = [0; N];
    assert_eq!(zone(memory).alloc_batch(&memory.table, &mut frames, Priority::Reserve), N);
    frames
        .iter()
        .for_each(|&word| memory.table.meta(Pfn(word)).unwrap().set_state(FrameState::cached(Init::Dirty)));
    frames
}

/// Gives a frame back to its region, without the lock.
fn push(memory: &'static TestMemory, word: u64) -> bool {
    let pfn = Pfn(word);
    zone(memory).push(&memory.table, zone(memory).regions.of(pfn), PfnRange::new(pfn, pfn.add(1)))
}

fn free(memory: &'static TestMemory) -> u64 {
    zone(memory).collect_all(&memory.table);
    zone(memory).free_blocks().iter().enumerate().map(|(order, count)| count << order).sum()
}

/// All is back where it was, and the budget says so.
fn assert_whole(memory: &'static TestMemory, before: u64) {
    assert_eq!(free(memory), before, "frames are lost, or were freed twice");
    zone(memory).settle(&memory.table);
    assert_eq!(zone(memory).budget.allowed(Priority::Reserve), before, "the budget has another number");
}

/// Makes the budget one of credit, as in a large zone.
fn with_credit(memory: &'static TestMemory) {
    zone(memory).budget.be_plenty();
}

#[test]
fn loom_two_cpus_give_back_to_a_region_that_a_third_party_collects() {
    run_model(3, || {
        with_memory(|memory| {
            with_credit(memory);
            let before = free(memory);
            let [a, b] = take(memory);
            let [c] = take(memory);
            let at = zone(memory).regions.of(Pfn(a));
            assert_eq!(at, zone(memory).regions.of(Pfn(c)));
            let other = thread::spawn(move || {
                TestCpu::become_cpu(1);
                assert!([a, b].iter().all(|&word| push(memory, word)));
            });
            assert!(push(memory, c));
            zone(memory).collect_all(&memory.table);
            other.join().unwrap();
            assert_whole(memory, before);
        });
    });
}

#[test]
fn loom_what_was_given_back_is_hinted_at_or_collected() {
    run_model(3, || {
        with_memory(|memory| {
            with_credit(memory);
            let before = free(memory);
            let block = || zone(memory).alloc(&memory.table, Order(7), Priority::Reserve, ZoneSearch::Hinted);
            let [a, b] = [(); 2].map(|()| {
                let start = block().unwrap().0;
                memory.table.meta(start).unwrap().set_state(FrameState::cached(Init::Dirty));
                PfnRange::new(start, start.add(128))
            });
            let at = zone(memory).regions.of(a.start);
            assert_eq!(at, zone(memory).regions.of(b.start));
            zone(memory).regions.hint(at).unwrap().give_up();
            // The bit is set, and what it speaks of is collected now.
            assert!(zone(memory).push(&memory.table, at, b));
            let other = thread::spawn(move || {
                TestCpu::become_cpu(1);
                assert!(zone(memory).push(&memory.table, at, a));
            });
            zone(memory).collect_all(&memory.table);
            other.join().unwrap();
            let has_many = zone(memory).regions.region(at).returned.has_many_racy();
            let says_so = zone(memory).regions.hint(at).unwrap().get().has_returned();
            assert!(says_so || !has_many, "what was given back is found by a search of all regions only");
            assert_whole(memory, before);
        });
    });
}

#[test]
fn loom_one_of_two_cpus_reserves_a_region() {
    run_model(2, || {
        with_memory(|memory| {
            let reserve = move || zone(memory).regions.hint(1).unwrap().reserve();
            let other = thread::spawn(move || {
                TestCpu::become_cpu(1);
                reserve()
            });
            let ours = reserve();
            assert_ne!(ours, other.join().unwrap(), "no CPU has reserved it, or both have");
        });
    });
}

#[test]
fn loom_settling_against_a_cpu_that_takes_and_frees_on_credit() {
    run_model(2, || {
        with_memory(|memory| {
            with_credit(memory);
            let before = free(memory);
            let [held] = take(memory);
            let other = thread::spawn(move || {
                TestCpu::become_cpu(1);
                let [theirs] = take(memory);
                zone(memory).free_batch(&memory.table, &[theirs]);
            });
            zone(memory).settle(&memory.table);
            zone(memory).free_batch(&memory.table, &[held]);
            other.join().unwrap();
            assert_whole(memory, before);
        });
    });
}

#[test]
fn loom_a_run_against_a_cpu_that_takes_the_last_block() {
    run_model(2, || {
        with_memory(|memory| {
            let before = free(memory);
            let first = Pfn(memory.span().start.0.next_multiple_of(Order::MAX.frames()));
            let run = PfnRange::new(first, first.add(2 * Order::MAX.frames()));
            let other = thread::spawn(move || {
                TestCpu::become_cpu(1);
                zone(memory)
                    .alloc(&memory.table, Order::MAX, Priority::Reserve, ZoneSearch::Every)
                    .map(|(pfn, _)| pfn)
            });
            let whole = zone(memory).take_run(&memory.table, run);
            let block = other.join().unwrap();
            match (whole, block) {
                (Some(init), None) => zone(memory).free_range(&memory.table, run, init),
                (None, Some(pfn)) => zone(memory).free(&memory.table, pfn, Order::MAX, Init::Dirty),
                (Some(_), Some(pfn)) => panic!("{pfn:?} has two owners, or is not of the run"),
                (None, None) => panic!("two whole blocks were free, and neither CPU got one"),
            }
            assert_whole(memory, before);
        });
    });
}

#[test]
fn loom_the_last_frame_is_found_while_another_cpu_frees_it() {
    run_model(2, || {
        with_memory(|memory| {
            let [a] = take(memory);
            let search =
                |order| zone(memory).alloc(&memory.table, order, Priority::Reserve, ZoneSearch::Every);
            let largest = || (0..=Order::MAX.0).rev().map(Order).find_map(search);
            while largest().is_some() {}
            with_credit(memory);
            let other = thread::spawn(move || {
                TestCpu::become_cpu(1);
                zone(memory).free_batch(&memory.table, &[a]);
            });
            let took = search(Order::BASE);
            other.join().unwrap();
            let took = [took, search(Order::BASE), search(Order::BASE)].into_iter().flatten();
            assert_eq!(took.map(|(pfn, _)| pfn.0).collect::<std::vec::Vec<_>>(), [a]);
        });
    });
}
