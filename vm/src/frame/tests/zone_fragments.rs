//! What is left of free memory in blocks of 2 MiB, and what is used before one is split.

use super::tests::*;
use crate::frame::tests::{Dice, memory};
use crate::frame::{AllocRequest, Frame};
use crate::machine::testing::{TestCpu, TestMachine};
use crate::units::Order;
use std::vec::Vec;

/// Free blocks of 2 MiB.
fn blocks(memory: &TestMemory<'_>) -> u64 {
    let free = memory.stats().free_blocks;
    free[9] + 2 * free[10]
}

#[test]
fn a_batch_uses_fragments_before_a_block_is_split() {
    let machine = TestMachine::new(8192);
    let memory = memory(&machine);
    let mut held = take(&memory, 900);
    held.retain(|frame| frame.pfn().0 % 2 == 0);
    memory.drain();
    let before = blocks(&memory);
    let fragments: u64 =
        memory.stats().free_blocks[..9].iter().zip(0..).map(|(count, order)| count << order).sum();
    // The last batch is 128 frames at most.
    held.extend(take(&memory, fragments as usize - 200));
    assert_eq!(
        blocks(&memory),
        before,
        "a block was split although there were {fragments} frames in fragments"
    );
    drop(held);
    assert_whole(&memory);
}

#[test]
fn a_cpu_uses_up_the_fragments_of_its_part_before_it_splits_a_block() {
    let machine = machine();
    let memory = memory(&machine);
    TestCpu::become_cpu(0);
    let mut held = take(&memory, 5000);
    let of = |frame: &Frame<'_, TestMachine>| zone(&memory).regions.of(frame.pfn());
    let regions = regions_of(zone(&memory), &held);
    let frames_in = |at: usize| held.iter().filter(|frame| of(frame) == at).count();
    // Frames of it are in use only, or in the cache.
    let full = regions.into_iter().max_by_key(|&at| frames_in(at)).unwrap();
    assert!(frames_in(full) >= 1900, "5000 frames are meant to fill a region of 2048");
    held.retain(|frame| of(frame) != full || frame.pfn().0 % 2 == 0);
    memory.drain();
    let before = blocks(&memory);
    held.extend(take(&memory, 800));
    assert_eq!(blocks(&memory), before, "a block was split although region {full} has many fragments");
    drop(held);
    assert_whole(&memory);
}

#[test]
fn a_block_takes_a_fragment_of_other_parts_before_2_mib_are_split() {
    let machine = machine();
    let memory = memory(&machine);
    let mut held = Vec::new();
    let mut take_until_one_is_split = |cpu| {
        TestCpu::become_cpu(cpu);
        let before = blocks(&memory);
        while blocks(&memory) == before {
            held.push(memory.alloc(Order(8), AllocRequest::DIRTY).unwrap());
        }
    };
    take_until_one_is_split(0);
    take_until_one_is_split(3);
    // CPU 3 goes offline.
    memory.leave_zones();
    TestCpu::become_cpu(0);
    let before = blocks(&memory);
    // Its own half block, and that one.
    held.extend((0..2).map(|_| memory.alloc(Order(8), AllocRequest::DIRTY).unwrap()));
    assert_eq!(blocks(&memory), before, "a block was split, although two halves were free");
    drop(held);
    assert_whole(&memory);
}

/// LLFree's benchmark `frag`: most of memory is taken, a random half of it freed, which leaves no block of
/// 2 MiB where memory was. Then all CPUs free a tenth of what they have at random, and take as much.
#[test]
fn frames_that_are_replaced_at_random_leave_regions_that_are_nearly_empty() {
    let machine = machine();
    let memory = memory(&machine);
    let mut dice = Dice(4);
    let mut held = Vec::new();
    for _ in 0..9 {
        for cpu in 0..CPUS {
            TestCpu::become_cpu(cpu);
            held.extend(take(&memory, FRAMES as usize / 10 / CPUS as usize));
        }
    }
    let mut free_at_random = |held: &mut Vec<Frame<'_, _>>, frames: usize| {
        for freed in 0..frames {
            TestCpu::become_cpu(freed as u32 % CPUS);
            drop(held.swap_remove(dice.roll(held.len() as u64) as usize));
        }
        // At this size most frames would come from the caches, where they were freed.
        memory.drain();
    };
    let half = held.len() / 2;
    free_at_random(&mut held, half);
    let at_start = blocks(&memory);
    for _ in 0..70 {
        free_at_random(&mut held, half / 10);
        for cpu in 0..CPUS {
            TestCpu::become_cpu(cpu);
            held.extend(take(&memory, half / 10 / CPUS as usize));
        }
    }
    let (left, free) = (blocks(&memory), memory.stats().free() / 512);
    assert!(left * 100 >= free * 60, "{at_start}, then {left} of {free} blocks of 2 MiB are whole");
    drop(held);
    assert_whole(&memory);
}

/// Half of memory in use, replaced at random, frames from all CPUs: how many blocks of 2 MiB are left.
#[test]
fn replacing_frames_at_random_leaves_blocks_of_2_mib() {
    let machine = machine();
    let memory = memory(&machine);
    let mut dice = Dice(9);
    let mut held = Vec::new();
    for cpu in 0..CPUS {
        TestCpu::become_cpu(cpu);
        held.extend(take(&memory, (FRAMES / 2 / u64::from(CPUS)) as usize));
    }
    memory.drain();
    let at_start = blocks(&memory);
    for _ in 0..60 {
        TestCpu::become_cpu(dice.roll(u64::from(CPUS)) as u32);
        let news = take(&memory, 600);
        for new in news {
            let at = dice.roll(held.len() as u64) as usize;
            held[at] = new;
        }
    }
    TestCpu::become_cpu(0);
    memory.drain();
    let left = blocks(&memory);
    assert!(left * 2 >= at_start, "{left} of {at_start} blocks of 2 MiB are left");
    drop(held);
    assert_whole(&memory);
}
