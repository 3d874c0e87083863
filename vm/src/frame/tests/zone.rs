//! Zones of several regions: which CPU takes where, the last frames, the reserve, and what comes back.

use super::*;
use crate::frame::tests::{Dice, memory, region};
use crate::frame::{AllocRequest, BootMap, Folio, Frame, Init, Memory, RecordInit, RegionKind};
use crate::machine::testing::{TestCpu, TestMachine, played};
use crate::units::PageSize;
use crate::work::WorkerPool;
use std::collections::BTreeSet;
use std::vec::Vec;

pub(super) type TestMemory<'m> = Memory<'m, TestMachine>;

pub(super) const CPUS: u32 = 4;
/// 160 MiB: regions of 8 MiB.
pub(super) const FRAMES: u64 = 40_960;
const RESERVE: AllocRequest = AllocRequest::DIRTY.with_priority(Priority::Reserve);

pub(super) fn machine() -> TestMachine {
    TestMachine::with_cpus(FRAMES, CPUS)
}

pub(super) fn zone<'a, 'm>(memory: &'a TestMemory<'m>) -> &'a Zone<'m, TestCpu> {
    assert!(memory.zones()[0].regions.len() >= 4 * CPUS as usize, "the zone is meant to be divided");
    &memory.zones()[0]
}

pub(super) fn regions_of<'a>(
    zone: &Zone<'_, TestCpu>,
    frames: impl IntoIterator<Item = &'a Frame<'a, TestMachine>>,
) -> BTreeSet<usize> {
    frames.into_iter().map(|frame| zone.regions.of(frame.pfn())).collect()
}

pub(super) fn take<'a>(memory: &'a TestMemory<'_>, frames: usize) -> Vec<Frame<'a, TestMachine>> {
    (0..frames).map(|_| memory.alloc_frame(AllocRequest::DIRTY).unwrap()).collect()
}

/// Everything freed: no frame cached, and only the zero page allocated.
pub(super) fn assert_whole(memory: &TestMemory<'_>) {
    TestCpu::become_cpu(0);
    memory.drain();
    let counts = memory.check().unwrap();
    assert_eq!((counts.cached, counts.allocated), (0, 1));
    let zone = &memory.zones()[0];
    zone.settle(&memory.table);
    let unassigned = zone.budget.allowed(Priority::Reserve);
    assert_eq!(unassigned, counts.free + counts.deferred, "the budget has another number of frames");
}

#[test]
fn each_cpu_takes_from_regions_of_its_own() {
    let machine = machine();
    let memory = memory(&machine);
    let mut all = Vec::new();
    for round in 0..3 {
        for cpu in 0..CPUS {
            TestCpu::become_cpu(cpu);
            let (frames, block) =
                (take(&memory, 600), memory.alloc(Order::HUGE, AllocRequest::DIRTY).unwrap());
            all.push((cpu, regions_of(zone(&memory), &frames), zone(&memory).regions.of(block.pfn())));
            if round < 2 {
                frames.into_iter().map(Frame::into_pfn).for_each(drop);
                block.into_pfn();
            }
        }
    }
    for (a, frames, block) in &all {
        for (b, other_frames, other_block) in &all {
            if a != b {
                assert!(frames.is_disjoint(other_frames), "CPUs {a} and {b}: {frames:?} {other_frames:?}");
                assert!(block != other_block && !frames.contains(other_block), "CPUs {a} and {b}");
            }
        }
    }
}

#[test]
fn a_frame_goes_back_to_the_region_of_another_cpu_without_its_lock() {
    let machine = machine();
    let memory = memory(&machine);
    TestCpu::become_cpu(1);
    let frames = take(&memory, 1000);
    let zone = zone(&memory);
    let own: Vec<_> = regions_of(zone, &frames).into_iter().collect();
    let before = memory.stats().free() + memory.stats().cached;
    TestCpu::become_cpu(2);
    // A second lock of this rank panics, and would be waited for for ever.
    let held = zone.regions.region(own[0]).lock();
    frames.into_iter().for_each(drop);
    drop(held);
    let waiting = own.iter().map(|&at| zone.regions.region(at).returned.is_empty_racy());
    assert!(waiting.clone().any(|is_empty| !is_empty), "nothing was given back to {own:?}");
    assert_eq!(memory.stats().free() + memory.stats().cached, before + 1000, "they are counted when asked");
    assert_whole(&memory);
}

/// What was given back to a region while a CPU had it reserved is no reason to choose it for ever.
#[test]
fn a_cpu_that_goes_offline_leaves_its_regions_collected() {
    let machine = machine();
    let memory = memory(&machine);
    TestCpu::become_cpu(1);
    let held = take(&memory, 600);
    let at = zone(&memory).regions.of(held[0].pfn());
    let known = || zone(&memory).regions.hint(at).unwrap().get();
    assert!(known().is_reserved());
    TestCpu::become_cpu(0);
    drop(held);
    memory.drain();
    assert!(known().has_returned(), "600 frames of another CPU's region are many");
    TestCpu::become_cpu(1);
    memory.leave_zones();
    assert!(!known().is_reserved() && !known().has_returned());
    assert!(zone(&memory).regions.region(at).returned.is_empty_racy());
    assert_whole(&memory);
}

#[test]
fn frames_that_went_back_are_found_and_merge() {
    let machine = machine();
    let memory = memory(&machine);
    memory.drain();
    let blocks = memory.stats().free_blocks;
    let mut dice = Dice(5);
    for _ in 0..6 {
        TestCpu::become_cpu(1);
        let mut frames = take(&memory, 20_000);
        TestCpu::become_cpu(2);
        while !frames.is_empty() {
            drop(frames.swap_remove(dice.roll(frames.len() as u64) as usize));
        }
    }
    TestCpu::become_cpu(0);
    let held: Vec<_> = core::iter::from_fn(|| memory.alloc(Order::MAX, AllocRequest::DIRTY)).collect();
    assert!(held.len() as u64 + 1 >= blocks[10], "{} of {}", held.len(), blocks[10]);
    drop(held);
    assert_whole(&memory);
    assert_eq!(memory.stats().free_blocks[10], blocks[10]);
}

#[test]
fn every_cpu_reaches_the_last_frame_wherever_it_is() {
    let machine = machine();
    let memory = memory(&machine);
    let mut held: Vec<_> = core::iter::from_fn(|| memory.alloc_frame(RESERVE)).collect();
    assert_eq!(held.len() as u64 + 1, memory.stats().managed);
    let mut dice = Dice(3);
    for _ in 0..40 {
        let mut freed = Vec::new();
        for _ in 0..1 + dice.roll(3) {
            TestCpu::become_cpu(dice.roll(u64::from(CPUS)) as u32);
            freed.push(held.swap_remove(dice.roll(held.len() as u64) as usize));
            if dice.roll(2) == 0 {
                freed.pop();
                memory.drain();
            } else {
                drop(freed.pop());
            }
            freed.clear();
            TestCpu::become_cpu(dice.roll(u64::from(CPUS)) as u32);
            held.push(memory.alloc_frame(RESERVE).expect("one is free"));
            assert!(memory.alloc_frame(RESERVE).is_none());
        }
    }
    drop(held);
    assert_whole(&memory);
}

#[test]
fn the_reserve_is_exact_whichever_regions_have_it() {
    let machine = machine();
    let memory = memory(&machine);
    let min = zone(&memory).watermark().min;
    let mut held = Vec::new();
    let mut cpu = 0;
    loop {
        cpu = (cpu + 1) % CPUS;
        TestCpu::become_cpu(cpu);
        match memory.alloc_frame(AllocRequest::DIRTY) {
            Some(frame) => held.push(frame),
            None => break,
        }
    }
    assert_eq!(memory.stats().free() + memory.stats().cached, min);
    assert!(memory.alloc(Order(1), AllocRequest::DIRTY).is_none());
    for n in 0..min {
        TestCpu::become_cpu((n % u64::from(CPUS)) as u32);
        held.push(memory.alloc_frame(RESERVE).unwrap());
        assert!(memory.alloc_frame(AllocRequest::DIRTY).is_none(), "of the reserve {n} were taken");
    }
    assert!(memory.alloc_frame(RESERVE).is_none());
    // What is freed is the reserve's first, whichever region it belongs to.
    for n in 0..min {
        TestCpu::become_cpu((n % u64::from(CPUS)) as u32);
        drop(held.swap_remove((n as usize * 7919) % held.len()));
        memory.drain();
        assert!(memory.alloc_frame(AllocRequest::DIRTY).is_none(), "{n} came back");
    }
    drop(held.pop());
    assert!(memory.alloc_frame(AllocRequest::DIRTY).is_some());
    drop(held);
    assert_whole(&memory);
}

#[test]
fn credit_comes_back_before_a_request_is_refused() {
    let machine = machine();
    let memory = memory(&machine);
    let zone = zone(&memory);
    // Every region gets credit for all that it has.
    let blocks: Vec<_> = (0..zone.regions.len() as u64 - 2)
        .map(|_| memory.alloc(Order::MAX, AllocRequest::DIRTY).unwrap())
        .collect();
    drop(blocks);
    for cpu in 0..CPUS {
        TestCpu::become_cpu(cpu);
        drop(take(&memory, 4000));
    }
    let held: Vec<_> = core::iter::from_fn(|| memory.alloc(Order(4), AllocRequest::DIRTY)).collect();
    let left = memory.stats().free() + memory.stats().cached;
    assert!(left < zone.watermark().min + 16 * 8, "{left} left");
    drop(held);
    assert_whole(&memory);
}

#[test]
fn a_run_of_a_gibibyte_crosses_regions_or_changes_nothing() {
    let machine = TestMachine::with_cpus(5 << 17, CPUS);
    let memory = memory(&machine);
    let size = PageSize::Giant;
    TestCpu::become_cpu(0);
    assert_eq!(memory.hugetlb().resize(size, 2, None).total, 1, "2.5 GiB, and the start is not aligned");
    memory.check().unwrap();
    memory.hugetlb().resize(size, 0, None);
    // A block in the middle of every run is taken: nothing is left over of any attempt.
    let held: Vec<_> = (0..600).map(|_| memory.alloc(Order::MAX, AllocRequest::DIRTY).unwrap()).collect();
    let kept: Vec<_> = held.into_iter().filter(|block| block.pfn().0 >> 10 & 255 == 200).collect();
    assert!(!kept.is_empty());
    let blocks = memory.stats().free_blocks;
    let zone = &memory.zones()[0];
    for block in &kept {
        let start = Pfn(block.pfn().0 >> 18 << 18);
        // As if its look had come before the block was taken.
        let run = PfnRange::new(start, start.add(1 << 18));
        if memory.span().covers(run) && zone.regions.of(start) > 0 {
            assert_eq!(zone.take_run(&memory.table, run), None);
        }
    }
    assert_eq!(memory.stats().free_blocks, blocks);
    drop(kept);
    assert_whole(&memory);
}

#[test]
fn random_work_of_all_orders_on_all_cpus_agrees_with_a_plain_set() {
    let mut machine = machine();
    for seed in 0..played(6, 60) {
        machine.unclaim_memory();
        let init = if seed % 2 == 0 { RecordInit::Eager } else { RecordInit::Deferred };
        random_work(&machine, init, seed);
    }
}

/// Allocates and frees on all CPUs while memory is drained, the pool is resized and records are initialised.
fn random_work(machine: &TestMachine, init: RecordInit, seed: u64) {
    let all = region(machine, 300, FRAMES, RegionKind::Usable(Init::Dirty), 0);
    let memory = Memory::start(BootMap::new(&[all]).unwrap().claim(machine).unwrap(), init).unwrap();
    let (mut dice, mut held, mut model) = (Dice(seed), Vec::<Folio<'_, TestMachine>>::new(), BTreeSet::new());
    for step in 0..6000 {
        TestCpu::become_cpu(dice.roll(u64::from(CPUS)) as u32);
        let burst = 1 + dice.roll(120);
        match dice.roll(100) {
            0 => {
                memory.drain();
            }
            1 => {
                memory.hugetlb().resize(PageSize::Huge, dice.roll(20), None);
            }
            2 if memory.deferred().frames() > 0 => {
                _ = memory.deferred().initialise_on_demand(&memory.zones()[0], Order::BASE, Priority::Normal);
            }
            3 => memory.plan_mishap(1 + dice.roll(4)),
            4..45 => {
                for _ in 0..burst {
                    let order = Order(dice.roll(1 << 11).trailing_zeros().min(10) as u8);
                    let priority = if dice.roll(30) == 0 { RESERVE } else { AllocRequest::DIRTY };
                    let Some(folio) = memory.alloc(order, priority) else { break };
                    let frames = folio.frames();
                    assert!(frames.start.is_aligned(order));
                    (frames.start.0..frames.end.0)
                        .for_each(|pfn| assert!(model.insert(pfn), "{pfn:#x} twice"));
                    held.push(folio);
                }
            }
            _ => {
                for _ in 0..burst.min(held.len() as u64) {
                    let folio = held.swap_remove(dice.roll(held.len() as u64) as usize);
                    (folio.frames().start.0..folio.frames().end.0)
                        .for_each(|pfn| assert!(model.remove(&pfn)));
                }
            }
        }
        if step % 1000 == 0 {
            let counts = memory.check().unwrap_or_else(|wrong| panic!("seed {seed}, step {step}: {wrong}"));
            let hugetlb = memory.hugetlb().counts(PageSize::Huge).total * PageSize::Huge.pages();
            assert_eq!(counts.allocated, model.len() as u64 + hugetlb + 1);
        }
    }
    memory.plan_mishap(0);
    drop(held);
    memory.hugetlb().resize(PageSize::Huge, 0, None);
    assert_whole(&memory);
}

#[test]
fn a_mishap_at_every_allocation_loses_nothing() {
    let machine = machine();
    let memory = memory(&machine);
    let work = || {
        let mut held = Vec::new();
        for step in 0..24u32 {
            TestCpu::become_cpu(step % CPUS);
            let order = Order([0, 0, 3, 9, 0, 10][step as usize % 6]);
            held.extend(memory.alloc(order, AllocRequest::DIRTY));
            if step % 5 == 4 {
                held.swap_remove(step as usize % held.len());
            }
        }
        held.len()
    };
    let all = work();
    for nth in 1..=24 {
        memory.plan_mishap(nth);
        assert_eq!(work(), all - 1);
        memory.check().unwrap();
    }
    assert_whole(&memory);
}

#[test]
fn deferred_blocks_of_several_regions_are_freed_to_each() {
    let machine = machine();
    let all = region(&machine, 0, FRAMES, RegionKind::Usable(Init::Dirty), 0);
    let start =
        || Memory::start(BootMap::new(&[all]).unwrap().claim(&machine).unwrap(), RecordInit::Deferred);
    let memory = start().unwrap();
    assert!(memory.deferred().frames() > FRAMES / 2);
    let workers = WorkerPool::without_helpers(&machine);
    memory.deferred().initialise(&workers, 0, &|| false, &|_| ()).unwrap();
    assert_eq!(memory.deferred().frames(), 0);
    memory.check().unwrap();
    assert_whole(&memory);
}

#[test]
fn cpus_that_use_up_a_zone_together_get_every_frame_once() {
    let machine = machine();
    let memory = memory(&machine);
    let work = |cpu: u32| {
        machine.run_as(cpu);
        let (mut dice, mut held) = (Dice(cpu.into()), Vec::new());
        for step in 0..60_000u64 {
            let grows = (step / 15_000) % 2 == 0;
            if dice.roll(10) < 4 + 3 * u64::from(grows) {
                let order = Order(if dice.roll(8) == 0 { dice.roll(10) as u8 } else { 0 });
                let Some(folio) = memory.alloc(order, AllocRequest::DIRTY) else { continue };
                machine.write(folio.pfn(), 8, &[cpu as u8 + 1; 4]);
                held.push(folio);
            } else if !held.is_empty() {
                let folio: Folio<'_, _> = held.swap_remove(dice.roll(held.len() as u64) as usize);
                let mut owner = [0; 4];
                machine.read(folio.pfn(), 8, &mut owner);
                assert_eq!(owner, [cpu as u8 + 1; 4], "two CPUs had {:?}", folio.pfn());
            }
        }
    };
    std::thread::scope(|scope| (0..CPUS).for_each(|cpu| drop(scope.spawn(move || work(cpu)))));
    assert!(memory.stats().drained > 0, "the test is meant to run out of memory");
    assert_whole(&memory);
}
