//! `mbind`: which arguments Linux takes, in which order it looks at them, and which neighbours it joins.

use crate::world::*;
use interleaf_check::calls::{Call, CallResult, Errno, PAGE};
use std::ops::Range;

const BIND: u32 = 2;
const LOCAL: u32 = 4;

fn mbind_as(pages: Range<u64>, mode: u32, nodes: u64, flags: u32) -> Call {
    Call::Mbind { addr: page(pages.start), len: (pages.end - pages.start) * PAGE, mode, nodes, flags }
}

fn mbind(pages: Range<u64>, mode: u32, nodes: u64) -> Call {
    mbind_as(pages, mode, nodes, 0)
}

const DONE: CallResult = CallResult::Value(0);

/// Modes with nodes that they take.
const TAKEN: [(u32, u64); 16] = [
    (0, 0),
    (0x8000, 0),
    (1, 0),
    (1, 1),
    (1, 0x21),
    (BIND, 1),
    (BIND, 0x21),
    (3, 1),
    (LOCAL, 0),
    (5, 1),
    (6, 1),
    (0x8002, 1),
    (0x8002, 0x21),
    (0x4002, 0x20),
    (0x2002, 1),
    (0x2005, 1),
];

/// Modes with nodes that they do not take.
const REFUSED: [(u32, u64); 18] = [
    (0, 1),
    (LOCAL, 1),
    (BIND, 0),
    (3, 0),
    (5, 0),
    (6, 0),
    (1, 2),
    (BIND, 0x20),
    (0x8002, 0x20),
    (7, 1),
    (0xc002, 1),
    (0x2000, 0),
    (0x2003, 1),
    (0x8004, 0),
    (0x8001, 0),
    (0x4001, 0),
    (0x1002, 1),
    (1 << 31 | BIND, 1),
];

#[test]
fn modes_take_the_nodes_that_fit_them() {
    for (mode, nodes) in TAKEN {
        assert_eq!(last(&[map(0..2, RW), mbind(0..2, mode, nodes)]), DONE, "{mode:#x} {nodes:#x}");
    }
    for (mode, nodes) in REFUSED {
        assert_eq!(last(&[map(0..2, RW), mbind(0..2, mode, nodes)]), error(Errno::EINVAL), "{mode:#x}");
        assert_eq!(last(&[mbind(0..2, mode, nodes)]), error(Errno::EINVAL), "before holes");
    }
}

#[test]
fn only_the_default_policy_goes_over_holes_but_not_over_a_hole_alone() {
    for (mode, nodes) in TAKEN {
        let is_default = mode & 7 == 0;
        for pages in [0..3, 1..3, 0..2, 2..9] {
            let expected = if is_default { DONE } else { error(Errno::EFAULT) };
            let calls = [map(0..1, RW), map(2..3, RW), mbind(pages, mode, nodes)];
            assert_eq!(last(&calls), expected, "{mode:#x}");
        }
        assert_eq!(last(&[map(0..1, RW), mbind(1..2, mode, nodes)]), error(Errno::EFAULT), "{mode:#x}");
    }
}

#[test]
fn mode_and_flags_come_before_alignment_and_length_and_nodes_after_them() {
    let call =
        |addr, len, mode, nodes, flags| last(&[map(0..1, RW), Call::Mbind { addr, len, mode, nodes, flags }]);
    let (start, invalid, wraps) = (page(0), error(Errno::EINVAL), page(0).wrapping_neg());
    assert_eq!(call(start, 0, 7, 0, 0), invalid);
    assert_eq!(call(start, 0, BIND, 1, 16), invalid);
    assert_eq!(call(start, 0, BIND, 1, 4), error(Errno::EPERM));
    assert_eq!(call(start + 1, 0, BIND, 1, 4), error(Errno::EPERM));
    assert_eq!(call(start, 0, BIND, 1, 20), invalid);
    assert_eq!(call(start + 1, 0, BIND, 1, 0), invalid);
    for len in [0, u64::MAX, u64::MAX - PAGE + 2] {
        for (mode, nodes) in [(0, 1), (BIND, 0), (3, 0), (BIND, 0x20), (LOCAL, 1)] {
            assert_eq!(call(start, len, mode, nodes, 0), DONE, "{len:#x} {mode}");
        }
        assert_eq!(call(start, len, 0xc002, 1, 0), invalid);
    }
    for len in [u64::MAX - PAGE + 1, wraps, wraps + PAGE] {
        assert_eq!(call(start, len, BIND, 1, 0), invalid, "{len:#x}");
        assert_eq!(call(start, len, 0, 0, 0), invalid, "{len:#x}");
    }
    assert_eq!(call(start, 1, BIND, 1, 0), DONE);
    assert_eq!(call(setting().task_end, PAGE, BIND, 1, 0), error(Errno::EFAULT));
}

#[test]
fn neighbours_of_one_policy_are_joined() {
    for (one, first) in TAKEN.into_iter().enumerate() {
        for (other, second) in TAKEN.into_iter().enumerate() {
            // These pairs are two ways to say the same.
            let alike = [(0, 1), (2, 8), (3, 4), (5, 6)];
            let same = one == other || alike.contains(&(one.min(other), one.max(other)));
            let calls = [map(0..4, RW), mbind(0..2, first.0, first.1), mbind(2..4, second.0, second.1)];
            assert_eq!(lines(&calls).len(), if same { 1 } else { 2 }, "{first:x?} {second:x?}");
        }
    }
}

#[test]
fn a_new_mapping_joins_no_neighbour_that_has_a_policy() {
    assert_eq!(lines(&[map(0..4, RW), mbind(0..4, LOCAL, 0), map(1..2, RW)]), [0..1, 1..2, 2..4]);
    assert_eq!(lines(&[map(0..4, RW), mbind(0..4, LOCAL, 0), map(1..2, RW), mbind(0..4, 0, 0)]), [0..4]);
    let protected = [map(0..4, RW), mbind(0..2, BIND, 1), protect(0..4, R), protect(1..4, RW)];
    assert_eq!(lines(&protected), [0..1, 1..2, 2..4]);
}

#[test]
fn a_strict_call_refuses_pages_on_other_nodes_and_changes_nothing() {
    let touched = [map(0..4, RW), write(1), read(2)];
    let strict = |pages, mode, nodes, flags| {
        let calls: Vec<Call> = touched.iter().copied().chain([mbind_as(pages, mode, nodes, flags)]).collect();
        (last(&calls), lines(&calls).len())
    };
    assert_eq!(strict(0..2, LOCAL, 0, 1), (error(Errno::EIO), 1));
    assert_eq!(strict(0..2, 1, 0, 1), (error(Errno::EIO), 1));
    assert_eq!(strict(0..2, 0x4002, 0x20, 1), (error(Errno::EIO), 1));
    assert_eq!(strict(2..4, LOCAL, 0, 1), (DONE, 2), "the zero page is nowhere");
    assert_eq!(strict(0..2, BIND, 1, 1), (DONE, 2));
    assert_eq!(strict(0..2, LOCAL, 0, 2), (DONE, 2));
    assert_eq!(strict(0..2, LOCAL, 0, 3), (DONE, 2));
    assert_eq!(strict(0..2, 0, 0, 1), (DONE, 1));
    assert_eq!(strict(0..5, LOCAL, 0, 1), (error(Errno::EFAULT), 1), "a hole comes first");
}
