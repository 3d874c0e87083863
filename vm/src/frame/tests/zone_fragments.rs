//! What is left of free memory in blocks of 2 MiB, and what is used before one is split.

use super::tests::*;
use crate::frame::Frame;
use crate::frame::tests::{Dice, memory};
use crate::machine::testing::{TestCpu, TestMachine};
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
