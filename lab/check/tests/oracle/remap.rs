//! mremap: which error comes first, and what a refused call leaves.

use crate::world::{NONE, R, RW, SHARED, error, last, lines, map, map_as, outcome, page, setting, write};
use interleaf_check::calls::{Call, CallResult, Errno, PAGE};
use interleaf_linux_abi::{MREMAP_DONTUNMAP, MREMAP_FIXED, MREMAP_MAYMOVE};

const MOVE: u64 = MREMAP_MAYMOVE;
const FIXED: u64 = MREMAP_MAYMOVE | MREMAP_FIXED;
const LEAVE: u64 = MREMAP_MAYMOVE | MREMAP_DONTUNMAP;

/// mremap of pages of the arena, to one of them.
fn remap(from: u64, old: u64, new: u64, flags: u64, to: u64) -> Call {
    Call::Mremap { addr: page(from), old_len: old * PAGE, new_len: new * PAGE, flags, to: page(to) }
}

#[test]
fn words_are_checked_before_mappings() {
    let end = setting().task_end;
    let words =
        |addr, old_len, new_len, flags, to| last(&[Call::Mremap { addr, old_len, new_len, flags, to }]);
    let (here, there) = (page(0), page(9));
    assert_eq!(words(here, PAGE, PAGE, 8, there), error(Errno::EINVAL));
    assert_eq!(words(here + 1, PAGE, PAGE, MOVE, there), error(Errno::EINVAL));
    for new_len in [0, u64::MAX, end + 1] {
        assert_eq!(words(here, PAGE, new_len, MOVE, there), error(Errno::EINVAL));
    }
    assert_eq!(words(here, PAGE, end, MOVE, there), error(Errno::EFAULT), "nothing is mapped");
    for to in [there + 1, here, end, u64::MAX] {
        assert_eq!(words(here, PAGE, PAGE, FIXED, to), error(Errno::EINVAL));
    }
    assert_eq!(words(here, PAGE, PAGE, MREMAP_FIXED, there), error(Errno::EINVAL));
    assert_eq!(words(here, PAGE, 2 * PAGE, LEAVE, there), error(Errno::EINVAL));
}

#[test]
fn lengths_are_checked_against_the_mapping_where_one_grows_or_moves() {
    let three = [map(0..1, RW), map(1..2, R), map(2..3, RW)];
    let after = |call: Call| last(&[three[0], three[1], three[2], call]);
    assert_eq!(after(remap(0, 9, 9, MOVE, 20)), CallResult::Value(page(0)), "nothing to do");
    assert_eq!(after(remap(0, 2, 3, MOVE, 20)), error(Errno::EFAULT));
    assert_eq!(after(remap(0, 3, 2, FIXED, 20)), error(Errno::EFAULT));
    assert_eq!(after(remap(0, 3, 1, FIXED, 20)), CallResult::Value(page(20)));
    assert_eq!(after(remap(0, 2, 2, LEAVE, 20)), error(Errno::EFAULT));
    assert_eq!(after(remap(0, 0, 1, MOVE, 20)), error(Errno::EINVAL));
    assert_eq!(after(remap(0, 1, 2, 0, 20)), error(Errno::ENOMEM));
    assert_eq!(after(remap(3, 1, 1, FIXED, 20)), error(Errno::EFAULT));
    assert_eq!(lines(&[three[0], three[1], three[2], remap(0, 9, 1, 0, 0)]), [0..1]);
}

#[test]
fn several_mappings_move_with_their_holes() {
    let calls = [map(0..1, RW), map(1..2, R), map(4..5, RW), map(20..30, NONE), remap(0, 8, 8, FIXED, 20)];
    assert_eq!(lines(&calls), [20..21, 21..22, 22..24, 24..25, 25..30]);
}

#[test]
fn copies_keep_the_offset_and_join_where_they_came_from() {
    let away = [map(0..4, RW), write(0), remap(1, 2, 2, FIXED, 20)];
    assert_eq!(lines(&away), [0..1, 3..4, 20..22]);
    let beside = [away[0], away[1], away[2], map(22..23, RW)];
    assert_eq!(lines(&beside), [0..1, 3..4, 20..22, 22..23]);
    let back = [away[0], away[1], away[2], remap(20, 2, 2, FIXED, 1)];
    assert_eq!(lines(&back), [0..4]);
    let untouched = [map(0..4, RW), remap(2, 2, 2, FIXED, 4), map(2..4, RW)];
    assert_eq!(lines(&untouched), [0..6]);
}

#[test]
fn a_mapping_that_is_left_is_empty_and_has_no_identity() {
    let left = [map(0..2, RW), write(0), write(1), remap(0, 2, 2, LEAVE | FIXED, 20)];
    assert_eq!(lines(&left), [0..2, 20..22]);
    let pages = outcome(&left).pages;
    assert_eq!(pages.iter().map(|(addr, _)| *addr).collect::<Vec<_>>(), [page(20), page(21)]);
    let merged = [left[0], left[1], left[2], left[3], map(2..3, RW)];
    assert_eq!(lines(&merged), [0..3, 20..22]);
}

#[test]
fn shared_memory_is_mapped_once_more_or_grows_beyond_its_object() {
    let twice =
        [map_as(0..4, RW, SHARED), write(1), remap(1, 0, 2, FIXED, 20), Call::Read { addr: page(20) }];
    assert_eq!(last(&twice), CallResult::Byte(7));
    let grown = [map_as(0..2, RW, SHARED), remap(0, 2, 4, 0, 0), Call::Read { addr: page(3) }];
    assert_eq!(last(&grown), CallResult::Bus);
}
