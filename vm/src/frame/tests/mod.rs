//! The allocator against a plain model, with small memories.

mod mappings;
mod misuse;
mod pools;

use super::*;
use crate::machine::testing::{TestCpu, TestMachine};
use crate::units::{NodeId, Order, PAGE_SIZE, Pfn, PhysAddr};
use std::collections::BTreeSet;
use std::vec::Vec;

/// splitmix64: every seed is a good one.
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below
    }
}

pub fn region(machine: &TestMachine, from: u64, to: u64, kind: RegionKind, node: u32) -> Region {
    let start = machine.frames().start.add(from).addr();
    Region { start, len_bytes: (to - from) * PAGE_SIZE as u64, kind, node: NodeId(node) }
}

/// All of the machine's frames, dirty.
pub fn memory(machine: &TestMachine) -> Memory<'_, TestMachine> {
    let all = region(machine, 0, machine.frames().len(), RegionKind::Usable(Init::Dirty), 0);
    Memory::new(machine, BootMap::new(&[all]).unwrap()).unwrap()
}

/// Everything freed: no frame cached, and only the zero page allocated.
fn assert_whole(memory: &Memory<'_, TestMachine>) {
    memory.drain();
    let counts = memory.check().unwrap();
    assert_eq!((counts.cached, counts.allocated), (0, 1));
}

#[test]
fn random_allocations_of_all_orders_agree_with_a_plain_set() {
    for seed in 0..40 {
        let machine = TestMachine::with_cpus(3000, 3);
        let memory = memory(&machine);
        let (mut dice, mut held, mut model) =
            (Dice(seed), Vec::<Folio<'_, TestMachine>>::new(), BTreeSet::new());
        for step in 0..1500 {
            TestCpu::become_cpu(dice.roll(3) as u32);
            if dice.roll(100) < 40 + 30 * u64::from(step < 700) {
                let order = Order([0, 0, 0, 1, 2, 3, 5, 9, 10][dice.roll(9) as usize]);
                let Some(folio) = memory.alloc(order, AllocRequest::DIRTY) else { continue };
                assert!(folio.pfn().is_aligned(order));
                let (start, end) = (folio.pfn(), folio.frames().end);
                (start.0..end.0).for_each(|pfn| assert!(model.insert(pfn), "{pfn:#x} allocated twice"));
                held.push(folio);
            } else if !held.is_empty() {
                let folio = held.swap_remove(dice.roll(held.len() as u64) as usize);
                (folio.pfn().0..folio.frames().end.0).for_each(|pfn| assert!(model.remove(&pfn)));
                drop(folio);
            }
            if step % 300 == 0 {
                let counts = memory.check().unwrap_or_else(|e| panic!("seed {seed} step {step}: {e}"));
                assert_eq!(counts.allocated, model.len() as u64 + 1);
            }
        }
        held.into_iter().for_each(drop);
        assert_whole(&memory);
    }
    TestCpu::become_cpu(0);
}

#[test]
fn holes_and_reserved_regions_are_never_allocated() {
    let machine = TestMachine::new(512);
    let usable = RegionKind::Usable(Init::Dirty);
    let map = BootMap::new(&[
        region(&machine, 1, 37, usable, 0),
        region(&machine, 37, 40, RegionKind::Reserved, 0),
        region(&machine, 40, 41, usable, 0),
        region(&machine, 300, 511, usable, 0),
    ]);
    let memory = Memory::new(&machine, map.unwrap()).unwrap();
    let mut held = Vec::new();
    while let Some(frame) = memory.alloc_frame(AllocRequest::DIRTY.with_priority(Priority::Reserve)) {
        let at = frame.pfn().0 - machine.frames().start.0;
        assert!(matches!(at, 1..37 | 40 | 300..511), "frame {at}");
        held.push(frame);
    }
    let managed = memory.stats().managed;
    assert_eq!(held.len() as u64 + 1, managed);
    assert!(managed < 36 + 1 + 211 && managed > 36 + 1 + 200);
    held.into_iter().for_each(drop);
    assert_whole(&memory);
}

#[test]
fn nodes_are_zones_and_do_not_merge_across_their_border() {
    let machine = TestMachine::new(256);
    let usable = RegionKind::Usable(Init::Dirty);
    let regions = [(0, 10, 0), (10, 100, 1), (100, 130, 0), (130, 256, 2)];
    let regions = regions.map(|(from, to, node)| region(&machine, from, to, usable, node));
    let memory = Memory::new(&machine, BootMap::new(&regions).unwrap()).unwrap();
    assert_eq!(memory.zones().iter().map(|zone| zone.node().0).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(memory.zones()[0].managed(), 40);
    let mut held = Vec::new();
    while let Some(pfn) = memory.alloc_frame(AllocRequest::DIRTY.with_priority(Priority::Reserve)) {
        held.push(pfn);
    }
    held.into_iter().rev().for_each(drop);
    assert_whole(&memory);
}

#[test]
fn ordinary_requests_leave_a_reserve() {
    let machine = TestMachine::new(1024);
    let memory = memory(&machine);
    let min = memory.zones()[0].watermark().min;
    assert!(min > 4);
    let mut held = Vec::new();
    while let Some(pfn) = memory.alloc_frame(AllocRequest::DIRTY) {
        held.push(pfn);
    }
    assert_eq!(memory.stats().free(), min);
    assert!(memory.alloc(Order(1), AllocRequest::DIRTY).is_none());
    for _ in 0..min {
        held.push(memory.alloc_frame(AllocRequest::DIRTY.with_priority(Priority::Reserve)).unwrap());
        assert!(
            memory.alloc_frame(AllocRequest::DIRTY).is_none(),
            "the reserve's frames went into the cache"
        );
    }
    assert!(memory.alloc_frame(AllocRequest::DIRTY.with_priority(Priority::Reserve)).is_none());
    held.into_iter().for_each(drop);
    assert_whole(&memory);
}

#[test]
fn an_allocation_finds_what_other_cpus_have_cached() {
    let machine = TestMachine::with_cpus(64, 4);
    let memory = memory(&machine);
    let ask = AllocRequest::DIRTY.with_priority(Priority::Reserve);
    let mut held: Vec<_> = core::iter::from_fn(|| memory.alloc_frame(ask)).collect();
    let all = held.len();
    for (cpu, pfn) in held.drain(..).enumerate() {
        TestCpu::become_cpu(1 + cpu as u32 % 3);
        drop(pfn);
    }
    assert!(memory.stats().cached >= 50);
    TestCpu::become_cpu(0);
    assert!(memory.alloc_frame(ask.with_priority(Priority::NoWait)).is_none());
    assert!(memory.alloc(Order(3), ask).map(drop).is_some());
    held.extend(core::iter::from_fn(|| memory.alloc_frame(ask)));
    assert_eq!(held.len(), all);
    held.into_iter().for_each(drop);
    assert_whole(&memory);
}

#[test]
fn a_zeroed_frame_is_zero_and_one_known_to_be_is_not_zeroed_again() {
    let machine = TestMachine::new(128);
    let memory = memory(&machine);
    let dirty = memory.alloc_frame(AllocRequest::DIRTY).unwrap();
    let pfn = dirty.pfn();
    machine.write(pfn, 100, b"old");
    drop(dirty);
    let zeroed = memory.alloc_zeroed(Priority::Normal).unwrap();
    let mut bytes = [1; PAGE_SIZE];
    machine.read(pfn, 0, &mut bytes);
    assert_eq!((zeroed.pfn(), bytes), (pfn, [0; PAGE_SIZE]));
    // Freed as zero though it is not any more: the bytes stay, so the allocator zeroed nothing.
    machine.write(pfn, 0, b"lie");
    drop(zeroed);
    let again = memory.alloc_frame(AllocRequest::ZEROED).unwrap();
    machine.read(pfn, 0, &mut bytes);
    assert_eq!((again.pfn(), &bytes[..3]), (pfn, &b"lie"[..]));
    // A frame whose holder may have written to it is freed as dirty.
    drop(again);
    let zeroed = memory.alloc_frame(AllocRequest::ZEROED).unwrap();
    machine.read(pfn, 0, &mut bytes);
    assert_eq!((zeroed.pfn(), bytes), (pfn, [0; PAGE_SIZE]));
    drop(zeroed);
    assert_whole(&memory);
}

#[test]
fn memory_supplied_zeroed_is_not_zeroed_again_until_it_is_used() {
    let machine = TestMachine::new(64);
    let all = region(&machine, 0, 64, RegionKind::Usable(Init::Zeroed), 0);
    let memory = Memory::new(&machine, BootMap::new(&[all]).unwrap()).unwrap();
    let read = |pfn: Pfn| {
        let mut bytes = [9; 3];
        machine.read(pfn, 0, &mut bytes);
        bytes
    };
    // Marked zero though it is not: the bytes stay, so the allocator zeroed nothing.
    let mut held: Vec<_> = core::iter::from_fn(|| memory.alloc(Order(2), AllocRequest::ZEROED)).collect();
    let (first, buddy) = (held.remove(1), held[1].pfn());
    assert_eq!(first.pfn().0 ^ 4, buddy.0);
    machine.write(first.pfn(), 0, b"lie");
    first.free_as_zeroed();
    let first = memory.alloc(Order(2), AllocRequest::ZEROED).unwrap();
    assert_eq!(read(first.pfn()), *b"lie");
    let buddy = held.remove(1);
    // A frame freed dirty makes the merged block dirty.
    let (first_pfn, both) = (first.pfn(), first.pfn().min(buddy.pfn()));
    drop(first);
    drop(buddy);
    let merged = memory.alloc(Order(3), AllocRequest::ZEROED).unwrap();
    assert_eq!((merged.pfn(), read(first_pfn)), (both, [0; 3]));
    drop(merged);
    held.into_iter().for_each(drop);
    assert_whole(&memory);
}

#[test]
fn the_zero_page_is_marked_zero_and_stays() {
    let machine = TestMachine::new(64);
    let memory = memory(&machine);
    let mut bytes = [1; PAGE_SIZE];
    machine.read(memory.zero_frame(), 0, &mut bytes);
    assert_eq!(bytes, [0; PAGE_SIZE]);
    assert_eq!(memory.meta(memory.zero_frame()).unwrap().state().kind(), Kind::Zero);
    assert!(memory.try_get(memory.zero_frame()).is_none());
}

#[test]
fn the_last_of_several_holders_frees_user_memory() {
    let machine = TestMachine::new(64);
    let memory = memory(&machine);
    let first = memory.alloc_frame(AllocRequest::DIRTY).unwrap().into_user();
    let pfn = first.pfn();
    let meta = memory.meta(pfn).unwrap();
    assert!(!meta.put_to_use(Kind::User), "it is user memory already");
    let second = memory.try_get(pfn).unwrap();
    drop(first);
    assert_eq!(meta.state().refcount(), 1);
    drop(second);
    assert_eq!(meta.state().kind(), Kind::Cached);
    assert!(memory.try_get(pfn).is_none());
    drop(memory.alloc(Order(3), AllocRequest::DIRTY).unwrap().into_user());
    assert_whole(&memory);
}

#[test]
fn a_table_is_attached_once_and_detached_once() {
    let machine = TestMachine::new(64);
    let memory = memory(&machine);
    let table = memory.alloc_table(Priority::Normal).unwrap();
    let meta = memory.meta(table.pfn()).unwrap();
    assert!(!meta.state().is_attached());
    drop(meta.table_lock().lock(crate::sync::lockdep::table(crate::units::Level::Pte)));
    meta.set_used_parts(3);
    let pfn = table.attach(&memory);
    assert!(meta.state().is_attached());
    // SAFETY: nothing points to it.
    let detach = || unsafe { memory.detach_table(pfn, Init::Dirty, None) };
    let detached = detach().unwrap();
    assert!(detach().is_none());
    // SAFETY: nothing points to it.
    unsafe { detached.free_unwalked() };
    assert_eq!((meta.state().kind(), meta.mapcount(), meta.used_parts()), (Kind::Cached, 0, 0));
    drop(memory.alloc_table(Priority::Normal).unwrap());
    assert_whole(&memory);
}

#[test]
fn any_planned_mishap_fails_exactly_one_allocation() {
    let machine = TestMachine::new(64);
    let memory = memory(&machine);
    for nth in 1..6 {
        memory.plan_mishap(nth);
        let got: Vec<_> = (0..6).map(|_| memory.alloc_frame(AllocRequest::DIRTY)).collect();
        assert!(!memory.is_mishap_planned());
        assert!((1..=6).all(|n| got[n as usize - 1].is_none() == (n == nth)));
        got.into_iter().flatten().for_each(drop);
    }
    memory.plan_mishap(1);
    assert!(memory.alloc(Order(2), AllocRequest::DIRTY).is_none());
    assert_whole(&memory);
}

#[test]
fn the_checker_finds_each_contradiction() {
    let machine = TestMachine::new(64);
    let memory = memory(&machine);
    let pfn = memory.alloc_frame(AllocRequest::DIRTY).unwrap().into_pfn();
    let meta = memory.meta(pfn).unwrap();
    assert!(memory.check().is_ok());
    meta.set_state(FrameState::RESERVED);
    assert_eq!(memory.check(), Err(FrameCheckError::Lost(pfn)));
    meta.set_state(FrameState::cached(Init::Dirty));
    assert_eq!(memory.check(), Err(FrameCheckError::Counters));
    meta.set_state(FrameState::free(0, Order(0), Init::Dirty));
    assert!(matches!(memory.check(), Err(FrameCheckError::List(_) | FrameCheckError::Unmerged(_))));
    meta.set_state(FrameState::taken(Order(2)));
    // The frames after it are in the cache, and so not inside a block.
    assert!(matches!(memory.check(), Err(FrameCheckError::Cached(_))));
    let inside = memory.meta(pfn.add(1)).unwrap();
    let cached = inside.state();
    inside.set_state(FrameState::TAKEN_FRAME);
    assert_eq!(memory.check(), Err(FrameCheckError::Inside(pfn.add(1))));
    inside.set_state(cached);
    meta.set_state(FrameState::TAKEN_FRAME);
    assert!(memory.check().is_ok());
}

#[test]
fn boot_memory_that_does_not_hold_the_records_is_refused() {
    let (usable, few) = (RegionKind::Usable(Init::Dirty), TestMachine::new(1));
    let refused =
        |machine, regions: &[Region]| Memory::new(machine, BootMap::new(regions).unwrap()).unwrap_err();
    assert_eq!(refused(&few, &[region(&few, 0, 1, usable, 0)]), BootError::TooSmall);
    assert_eq!(refused(&few, &[]), BootError::NoMemory);
    // Two frames, and records for all between them.
    let wide = TestMachine::new(4096);
    let ends = [region(&wide, 0, 1, usable, 0), region(&wide, 4095, 4096, usable, 0)];
    assert_eq!(refused(&wide, &ends), BootError::TooSmall);
    let far = Region { start: PhysAddr(1 << 51), ..region(&wide, 1, 2, usable, 0) };
    assert_eq!(refused(&wide, &[far]), BootError::NotFree);
}

#[test]
fn threads_that_exhaust_memory_together_get_every_frame_once() {
    let machine = TestMachine::with_cpus(2048, 4);
    let memory = memory(&machine);
    let work = |cpu: u32| {
        machine.run_as(cpu);
        let (mut dice, mut held) = (Dice(cpu.into()), Vec::new());
        for step in 0..20_000u64 {
            let more = (step / 2000) % 2 == 0;
            if dice.roll(10) < 5 + 3 * u64::from(more) {
                let order = Order(if dice.roll(20) == 0 { 3 } else { 0 });
                let Some(folio) = memory.alloc(order, AllocRequest::DIRTY) else { continue };
                machine.write(folio.pfn(), 8, &[cpu as u8 + 1; 4]);
                held.push(folio);
            } else if !held.is_empty() {
                let folio = held.swap_remove(dice.roll(held.len() as u64) as usize);
                let mut owner = [0; 4];
                machine.read(folio.pfn(), 8, &mut owner);
                assert_eq!(owner, [cpu as u8 + 1; 4], "two CPUs had {:?}", folio.pfn());
                drop(folio);
            }
        }
        held.into_iter().for_each(drop);
    };
    std::thread::scope(|scope| (0..4).for_each(|cpu| drop(scope.spawn(move || work(cpu)))));
    assert!(memory.stats().drained > 0, "the test is meant to run out of memory");
    assert_whole(&memory);
}
