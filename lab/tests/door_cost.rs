//! No cost without an observer: the door and core's atomics execute the same number of instructions,
//! counted exactly.

use interleaf::machine::Cpu;
use interleaf::sync::atomic as door;
use interleaf_lab::machine::host::Host;
use interleaf_lab::machine::watch::Watch;
use interleaf_lab::os::instructions::count;
use std::hint::black_box;
use std::sync::atomic::{self as bare, Ordering::*};

#[inline(never)]
fn through_the_door<C: Cpu>(a: &door::AtomicU64<C>, b: &door::AtomicU32<C>) -> u64 {
    let mut sum = a.load(Acquire) + u64::from(b.fetch_add(3, Relaxed));
    a.store(sum, Release);
    door::fence::<C>(SeqCst);
    sum ^= a.compare_exchange(sum, 7, AcqRel, Acquire).unwrap_or(5);
    sum ^ u64::from(b.swap(9, AcqRel)) ^ u64::from(b.fetch_or(1, Release))
}

#[inline(never)]
fn without_a_door(a: &bare::AtomicU64, b: &bare::AtomicU32) -> u64 {
    let mut sum = a.load(Acquire) + u64::from(b.fetch_add(3, Relaxed));
    a.store(sum, Release);
    bare::fence(SeqCst);
    sum ^= a.compare_exchange(sum, 7, AcqRel, Acquire).unwrap_or(5);
    sum ^ u64::from(b.swap(9, AcqRel)) ^ u64::from(b.fetch_or(1, Release))
}

fn counted<C: Cpu>() -> u64 {
    let (a, b) = (door::AtomicU64::<C>::new(1), door::AtomicU32::<C>::new(2));
    let run = || {
        black_box(through_the_door(black_box(&a), black_box(&b)));
    };
    count(run).unwrap()
}

#[test]
fn the_door_costs_no_instruction_without_an_observer() {
    let (a, b) = (bare::AtomicU64::new(1), bare::AtomicU32::new(2));
    let run = || {
        black_box(without_a_door(black_box(&a), black_box(&b)));
    };
    let plain = count(run).unwrap();
    assert_eq!(counted::<Host>(), plain);
    assert!(counted::<Watch>() > plain + 50, "an observer costs something, so the count can tell");
}
