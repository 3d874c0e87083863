//! A child does nothing outside of its windows.

use super::*;
use crate::os::child::{Child, HugePages};
use std::panic::{AssertUnwindSafe, catch_unwind};

const LOW: Range<u64> = 0x4200_0000..0x4300_0000;
const MAIN: Range<u64> = 1 << 44..(1 << 44) + (1 << 30);

fn prepared() -> Child {
    let mut child = Child::start().expect("a child");
    child.prepare(&[LOW, MAIN], MAIN.start + (1 << 20), &[], HugePages::Refused).expect("free windows");
    child
}

#[test]
fn steps_are_carried_out_in_the_windows() {
    let (start, len) = (LOW.start, 2 * PAGE);
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED) as u32;
    let steps = [
        Step::Map { hint: start, len, prot: 3, flags },
        Step::Write { addr: start + 5, value: 7 },
        Step::Read { addr: start + 5 },
        Step::Resident { addr: start, len, slot: 16 },
        Step::Unmap { addr: start, len },
    ];
    let mut child = prepared();
    assert_eq!(child.run(0, &steps).expect("it lives"), [start, 0, 7, 0, 0]);
    assert_eq!(child.read_scratch(0, 16, 2), [1, 0]);
}

#[test]
fn steps_that_leave_the_windows_are_refused_and_none_is_carried_out() {
    let mut child = prepared();
    let (own, len) = (child.scratch_addr(0) / PAGE * PAGE, PAGE);
    let fixed = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED) as u32;
    let mark = Step::Map { hint: LOW.start, len, prot: 3, flags: fixed };
    let outside = [
        Step::Map { hint: own, len, prot: 7, flags: fixed },
        Step::Map { hint: LOW.end - PAGE, len: 2 * PAGE, prot: 7, flags: fixed },
        Step::Unmap { addr: own, len },
        Step::Unmap { addr: LOW.start, len: MAIN.end },
        Step::Remap { addr: own, old_len: len, new_len: len, flags: 3, to: LOW.start + PAGE },
        Step::Remap { addr: LOW.start, old_len: len, new_len: len, flags: 3, to: own },
        Step::Remap { addr: LOW.start, old_len: MAIN.end, new_len: len, flags: 0, to: 0 },
        Step::Protect { addr: own, len, prot: 7 },
        Step::Advise { addr: own, len, advice: libc::MADV_DONTNEED },
        Step::Bind { addr: own, len, mode: 0, flags: 0, slot: 0 },
        Step::Bind { addr: LOW.start, len, mode: 0, flags: 0, slot: SCRATCH_BYTES as u64 - 7 },
        Step::Resident { addr: LOW.start, len, slot: SCRATCH_BYTES as u64 },
        Step::Read { addr: own },
        Step::Write { addr: own, value: 1 },
    ];
    for step in outside {
        let refused = catch_unwind(AssertUnwindSafe(|| child.run(0, &[mark, step])));
        assert!(refused.is_err(), "{step:?} was carried out");
    }
    let read = child.run(0, &[Step::Read { addr: LOW.start }]).expect("it lives");
    assert!(read[0] > 255, "the step before a refused one was carried out");
}

/// Linux walks on as long as pages are mapped, and writes a byte for each.
#[test]
fn an_answer_that_is_longer_than_the_scratch_memory_ends_with_it() {
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED) as u32;
    let (addr, len) = (MAIN.start, 1 << 26);
    let slot = SCRATCH_BYTES as u64 - 64;
    let steps = [Step::Map { hint: addr, len, prot: 3, flags }, Step::Resident { addr, len, slot }];
    let results = prepared().run(0, &steps).expect("it lives");
    assert_eq!(results, [addr, (-i64::from(libc::EFAULT)).cast_unsigned()]);
}

#[test]
fn a_window_that_is_not_free_and_a_child_that_is_not_arranged_are_refused() {
    let mut child = Child::start().expect("a child");
    let own = child.scratch_addr(0) / PAGE * PAGE;
    assert!(child.prepare(&[LOW, own..own + PAGE], LOW.start, &[], HugePages::Refused).is_err());
    let run = catch_unwind(AssertUnwindSafe(|| child.run(0, &[Step::Break { end: 0 }])));
    assert!(run.is_err(), "a step before everything is arranged");
}
