//! Which neighbours are one line of the map. Pages are counted within the arena.

use crate::world::{
    NONE, PRIVATE, R, RW, RWX, SHARED, advise, lines, map, map_as, protect, read, unmap, write,
};
use interleaf_check::calls::{MapFlags, advice};

#[test]
fn a_new_mapping_joins_both_neighbours() {
    assert_eq!(lines(&[map(0..1, RW), map(2..3, RW), map(1..2, RW)]), [0..3]);
    assert_eq!(lines(&[map(0..1, RW), map(2..3, R), map(1..2, RW)]), [0..2, 2..3]);
}

#[test]
fn a_mapping_never_written_joins_a_written_one() {
    assert_eq!(lines(&[map(0..1, RW), write(0), map(1..2, RW)]), [0..2]);
    assert_eq!(lines(&[map(1..2, RW), write(1), map(0..1, RW)]), [0..2]);
}

#[test]
fn neighbours_written_apart_never_join_and_what_fills_their_gap_joins_the_lower() {
    let apart = [map(0..1, RW), write(0), map(2..3, RW), write(2)];
    assert_eq!(lines(&[&apart[..], &[map(1..2, RW)]].concat()), [0..2, 2..3]);
    assert_eq!(lines(&[&apart[..], &[map(1..2, R), protect(1..2, RW)]].concat()), [0..2, 2..3]);
}

#[test]
fn reading_gives_no_identity() {
    assert_eq!(lines(&[map(0..1, RW), read(0), map(2..3, RW), read(2), map(1..2, RW)]), [0..3]);
}

#[test]
fn a_first_write_takes_the_identity_of_a_neighbour_alike_but_for_rights() {
    let two = [map(0..2, RW), protect(1..2, RWX)];
    assert_eq!(lines(&[&two[..], &[write(0), write(1), protect(1..2, RW)]].concat()), [0..2], "from below");
    assert_eq!(lines(&[&two[..], &[write(1), write(0), protect(1..2, RW)]].concat()), [0..2], "from above");
}

#[test]
fn a_first_write_prefers_the_identity_above() {
    // Pages 0 and 2 get different identities; page 1, first written between them, must take that of 2.
    let apart = [map(0..1, RW), write(0), map(2..3, RW), write(2), map(1..2, RWX), write(1)];
    assert_eq!(lines(&[&apart[..], &[protect(1..2, RW)]].concat()), [0..1, 1..3]);
}

#[test]
fn a_first_write_takes_no_identity_where_advice_differs() {
    let two = [map(0..2, RW), advise(1..2, advice::RANDOM)];
    assert_eq!(lines(&[&two[..], &[advise(1..2, advice::NORMAL)]].concat()), [0..2]);
    assert_eq!(
        lines(&[&two[..], &[write(0), write(1), advise(1..2, advice::NORMAL)]].concat()),
        [0..1, 1..2]
    );
}

#[test]
fn no_identity_passes_through_a_neighbour_that_has_none() {
    let gap = [map(0..3, RW), protect(1..2, NONE), write(0), write(2), protect(1..2, RW)];
    assert_eq!(lines(&gap), [0..2, 2..3]);
}

#[test]
fn both_halves_keep_the_identity_and_join_again() {
    assert_eq!(lines(&[map(0..3, RW), write(0), protect(1..2, R), protect(1..2, RW)]), [0..3]);
    assert_eq!(lines(&[map(0..3, RW), write(0), unmap(1..2), map(1..2, RW)]), [0..3]);
}

#[test]
fn a_boundary_moves_where_only_a_part_joins() {
    assert_eq!(lines(&[map(0..2, RW), map(2..5, R), protect(2..4, RW)]), [0..4, 4..5]);
    assert_eq!(lines(&[map(0..3, R), map(3..5, RW), protect(1..3, RW)]), [0..1, 1..5]);
    assert_eq!(lines(&[map(0..6, R), protect(2..4, RW)]), [0..2, 2..4, 4..6]);
}

#[test]
fn dontneed_does_not_take_the_identity_away() {
    let apart =
        [map(0..1, RW), write(0), map(2..3, RW), write(2), advise(2..3, advice::DONTNEED), map(1..2, RW)];
    assert_eq!(lines(&apart), [0..2, 2..3]);
}

#[test]
fn memory_once_written_stays_committed_without_the_right_to_write() {
    assert_eq!(lines(&[map(0..1, RW), protect(0..1, R), map(1..2, R)]), [0..2], "never written");
    assert_eq!(lines(&[map(0..1, RW), write(0), protect(0..1, R), map(1..2, R)]), [0..1, 1..2], "written");
}

#[test]
fn memory_made_writable_is_committed() {
    assert_eq!(lines(&[map(0..1, RW), map(1..2, R), protect(1..2, RW)]), [0..2]);
    let noreserve = PRIVATE | MapFlags::NORESERVE;
    assert_eq!(lines(&[map(0..1, RW), map_as(1..2, R, noreserve), protect(1..2, RW)]), [0..1, 1..2]);
}

#[test]
fn noreserve_stack_and_advice_keep_neighbours_apart() {
    let noreserve = PRIVATE | MapFlags::NORESERVE;
    assert_eq!(lines(&[map(0..1, R), map_as(1..2, R, noreserve)]), [0..1, 1..2]);
    assert_eq!(lines(&[map_as(0..1, R, noreserve), map_as(1..2, R, noreserve)]), [0..2]);
    assert_eq!(lines(&[map(0..1, R), map_as(1..2, R, PRIVATE | MapFlags::STACK)]), [0..1, 1..2]);
    assert_eq!(lines(&[map(0..2, R), advise(1..2, advice::RANDOM)]), [0..1, 1..2]);
    assert_eq!(lines(&[map(0..2, R), advise(1..2, advice::RANDOM), advise(1..2, advice::NORMAL)]), [0..2]);
    let stack = map_as(0..1, R, PRIVATE | MapFlags::STACK);
    assert_eq!(
        lines(&[stack, map(1..2, R), advise(1..2, advice::NOHUGEPAGE)]),
        [0..2],
        "STACK is NOHUGEPAGE"
    );
}

#[test]
fn each_shared_mmap_is_an_object_of_its_own() {
    assert_eq!(lines(&[map_as(0..1, RW, SHARED), map_as(1..2, RW, SHARED)]), [0..1, 1..2]);
    assert_eq!(lines(&[map_as(0..3, RW, SHARED), protect(1..2, R), protect(1..2, RW)]), [0..3]);
    assert_eq!(lines(&[map_as(0..3, RW, SHARED), unmap(1..2), map_as(1..2, RW, SHARED)]), [0..1, 1..2, 2..3]);
}

#[test]
fn the_heap_joins_downwards_only_and_only_itself() {
    use crate::world::page;
    use interleaf_check::calls::Call;
    // The heap starts at page 24 of the arena.
    let brk = |n| Call::Brk { addr: page(n) };
    assert_eq!(lines(&[brk(26), brk(28)]), [24..28]);
    assert_eq!(
        lines(&[map(23..24, RW), brk(26)]),
        [23..24, 24..26],
        "what lies below the heap is not the heap"
    );
    assert_eq!(lines(&[brk(26), map(24..26, RW), brk(28)]), [24..28], "what replaced it is");
}
