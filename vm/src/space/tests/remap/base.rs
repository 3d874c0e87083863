//! mremap of private base pages: where the mapping is afterwards, and what its pages hold.

use crate::space::tests::world::base::{
    READ_WRITE, TABLE, TestSpace, frame, leaf, load, map, page, store, with_space,
};
use crate::space::tests::world::remap::{FIXED, IN_PLACE, LEAVE, MAY_MOVE, remap};
use crate::space::tests::world::rmap::assert_agrees;
use crate::space::tests::world::{PAGE, check_copies, copy_translations};
use crate::space::{Counter, Fault, FaultError};
use crate::units::{Access, VpnRange};
use crate::vma::{AnonId, VmaFlags};
use std::vec::Vec;

/// The mappings, as pages of the arena.
fn lines(space: &TestSpace<'_>) -> Vec<(u64, u64)> {
    let mut all = Vec::new();
    let nr = |vpn: crate::units::Vpn| vpn.0 - page(0).vpn().0;
    space.inspect().each_vma(|vma| all.push((nr(vma.range.start), nr(vma.range.end))));
    all
}

fn refused(space: &TestSpace<'_>, nr: u64) -> bool {
    space.fault(Fault { addr: page(nr), access: Access::Read }) == Err(FaultError::NotMapped)
}

/// Moves pages to a place.
fn go(space: &TestSpace<'_>, from: u64, pages: u64, to: u64) {
    let moved = remap(space, (page(from), pages * PAGE), (page(to), pages * PAGE), FIXED);
    assert_eq!(moved, Ok(page(to)));
}

#[test]
fn pages_keep_what_they_hold_and_their_frames_wherever_they_go() {
    for distance in [1 << 14, (1 << 14) + 1, TABLE - 3] {
        with_space(|vm, space| {
            // Three tables of leaves, the first and the last in part.
            let (first, len) = (TABLE - 5, TABLE + 10);
            map(&space, first, len);
            let used = [0, 1, 4, 5, 6, 7 + 16, TABLE / 2, TABLE + 4, TABLE + 5, len - 1];
            used.iter().for_each(|&nr| store(&space, page(first + nr), 1 + (nr % 200) as u8));
            assert_eq!(load(&space, page(first + 2)), 0, "the zero page");
            let frames = used.map(|nr| frame(&space, page(first + nr)));
            let tables = || vm.totals().get(Counter::TableAlloc) - vm.totals().get(Counter::TableFree);
            let before = tables();
            let to = first + 4 * TABLE + distance;
            go(&space, first, len, to);
            assert_eq!(lines(&space), [(to, to + len)]);
            for (nr, old) in used.into_iter().zip(frames) {
                assert_eq!(frame(&space, page(to + nr)), old, "page {nr}");
                assert_eq!(load(&space, page(to + nr)), 1 + (nr % 200) as u8);
                assert!(refused(&space, first + nr) && leaf(&space, page(first + nr)).is_none());
            }
            assert!(leaf(&space, page(to + 2)).is_some_and(|leaf| !leaf.owned()), "zeros move, too");
            assert!(leaf(&space, page(to + 3)).is_none(), "nothing stays nothing");
            assert!(tables() <= before + 1, "{} tables more", tables() - before);
            assert_eq!(assert_agrees(vm, &[space], 48 * TABLE), 1);
        });
    }
}

#[test]
fn a_mapping_becomes_longer_and_shorter_in_place() {
    with_space(|_, space| {
        map(&space, 0, 2);
        map(&space, 8, 1);
        store(&space, page(0), 1);
        assert_eq!(remap(&space, (page(1), PAGE), (page(0), 3 * PAGE), IN_PLACE), Ok(page(1)), "its end");
        assert_eq!(lines(&space), [(0, 4), (8, 9)]);
        store(&space, page(3), 2);
        assert_eq!(remap(&space, (page(0), 4 * PAGE), (page(0), 8 * PAGE), IN_PLACE), Ok(page(0)));
        assert_eq!(lines(&space), [(0, 9)], "it meets the next one, and joins it");
        assert_eq!(remap(&space, (page(0), 9 * PAGE), (page(0), PAGE), IN_PLACE), Ok(page(0)));
        assert_eq!(lines(&space), [(0, 1)]);
        assert_eq!(load(&space, page(0)), 1);
        assert!(refused(&space, 3));
        assert_eq!(remap(&space, (page(0), PAGE), (page(0), PAGE - 1), IN_PLACE), Ok(page(0)), "as it is");
    });
}

#[test]
fn a_mapping_that_has_no_room_moves_if_it_may_and_becomes_longer() {
    with_space(|vm, space| {
        map(&space, 0, 2);
        let request = crate::space::MapRequest {
            place: crate::space::Place::Fixed(page(2)),
            flags: VmaFlags::READ,
            ..crate::space::MapRequest::anonymous(PAGE)
        };
        space.map(&request).unwrap();
        (0..2).for_each(|nr| store(&space, page(nr), 7 + nr as u8));
        let moved = remap(&space, (page(1), PAGE), (page(0), 3 * PAGE), MAY_MOVE).unwrap();
        assert_eq!([load(&space, moved), load(&space, page(0))], [8, 7]);
        let third = crate::units::VirtAddr(moved.0 + 2 * PAGE);
        store(&space, third, 9);
        assert_eq!(space.inspect().vma_at(moved).unwrap().range.len(), 3);
        assert!(refused(&space, 1));
        let spaces = [space];
        assert_eq!(crate::space::tests::world::rmap::rmap(vm, frame(&spaces[0], third), &spaces).1.len(), 1);
    });
}

#[test]
fn what_lies_at_the_fixed_place_is_unmapped_and_holes_are_moved_as_holes() {
    with_space(|_, space| {
        map(&space, 0, 4);
        map(&space, 6, 2);
        space.protect(page(1), PAGE, VmaFlags::READ).unwrap();
        (6..8).for_each(|nr| store(&space, page(nr), nr as u8));
        map(&space, 100, 20);
        (100..120).for_each(|nr| store(&space, page(nr), nr as u8));
        // Four mappings and a hole of two pages.
        go(&space, 0, 8, 106);
        assert_eq!(lines(&space), [(100, 107), (107, 108), (108, 112), (112, 114), (114, 120)]);
        let expected = [(105, 105), (106, 0), (109, 0), (110, 110), (112, 6), (113, 7), (114, 114)];
        expected.into_iter().for_each(|(nr, byte)| assert_eq!(load(&space, page(nr)), byte, "page {nr}"));
        assert!((0..8).all(|nr| refused(&space, nr)));
    });
}

#[test]
fn a_moved_mapping_joins_neighbours_as_its_pages_count() {
    with_space(|_, space| {
        map(&space, 0, 4);
        go(&space, 2, 2, 4);
        assert_eq!(lines(&space), [(0, 2), (4, 6)], "without copies: it could have joined what is left");
        map(&space, 2, 2);
        assert_eq!(lines(&space), [(0, 6)]);
        store(&space, page(0), 1);
        go(&space, 2, 2, 6);
        assert_eq!(lines(&space), [(0, 2), (4, 6), (6, 8)], "with copies it keeps its offset");
        go(&space, 6, 2, 2);
        assert_eq!(lines(&space), [(0, 6)], "there it fits again");
    });
}

#[test]
fn the_old_mapping_stays_empty_where_it_is_not_unmapped() {
    with_space(|vm, space| {
        map(&space, 0, 4);
        (0..4).for_each(|nr| store(&space, page(nr), 1 + nr as u8));
        let moved = remap(&space, (page(1), 2 * PAGE), (page(64), 2 * PAGE), LEAVE).unwrap();
        assert_eq!(moved, page(64), "the hint is free");
        assert_eq!(lines(&space), [(0, 4), (64, 66)]);
        assert_eq!([0, 1, 2, 3, 64, 65].map(|nr| load(&space, page(nr))), [1, 0, 0, 4, 2, 3]);
        store(&space, page(1), 9);
        assert_eq!([1, 64].map(|nr| load(&space, page(nr))), [9, 2]);
        assert!(!space.inspect().vma_at(page(0)).unwrap().anon.is_none(), "it has copies still");
        let all = remap(&space, (page(64), 2 * PAGE), (page(96), 2 * PAGE), LEAVE | FIXED).unwrap();
        assert_eq!([load(&space, all), load(&space, page(64))], [2, 0]);
        assert_eq!(space.inspect().vma_at(page(64)).unwrap().anon, AnonId::NONE);
        // Next to itself, without copies: one mapping.
        map(&space, 200, 4);
        assert_eq!(remap(&space, (page(202), 2 * PAGE), (page(204), 2 * PAGE), LEAVE | FIXED), Ok(page(204)));
        assert!(lines(&space).contains(&(200, 206)));
        store(&space, page(205), 3);
        assert_eq!(assert_agrees(vm, &[space], 8 * TABLE), 1);
    });
}

#[test]
fn a_moved_page_is_copied_on_write_and_found_in_each_space() {
    with_space(|vm, first| {
        map(&first, 0, 4);
        (0..4).for_each(|nr| store(&first, page(nr), nr as u8));
        let child = first.fork().unwrap();
        go(&child, 0, 4, 50);
        let grandchild = child.fork().unwrap();
        go(&grandchild, 50, 2, 80);
        store(&child, page(51), 9);
        let spaces = [first, child, grandchild];
        assert_eq!([0, 1].map(|nr| load(&spaces[0], page(nr))), [0, 1]);
        assert_eq!([50, 51].map(|nr| load(&spaces[1], page(nr))), [0, 9]);
        assert_eq!([80, 81].map(|nr| load(&spaces[2], page(nr))), [0, 1]);
        assert_eq!(assert_agrees(vm, &spaces, 100), 3);
    });
}

#[test]
fn rights_of_pages_move_with_them() {
    with_space(|_, space| {
        map(&space, 0, 2);
        (0..2).for_each(|nr| store(&space, page(nr), 5));
        space.protect(page(0), PAGE, VmaFlags::READ).unwrap();
        go(&space, 0, 2, 30);
        assert_eq!(space.fault(Fault { addr: page(30), access: Access::Write }), Err(FaultError::NotAllowed));
        space.protect(page(30), PAGE, READ_WRITE).unwrap();
        store(&space, page(30), 6);
        assert_eq!([30, 31].map(|nr| load(&space, page(nr))), [6, 5]);
    });
}

#[test]
fn no_translation_of_the_old_pages_is_left() {
    with_space(|_, space| {
        map(&space, 0, TABLE + 8);
        (0..TABLE + 8).step_by(3).for_each(|nr| store(&space, page(nr), 1));
        let arena = VpnRange::new(page(0).vpn(), page(TABLE + 8).vpn());
        copy_translations(&space, arena);
        go(&space, 2, TABLE + 2, 4 * TABLE + 1);
        assert!(check_copies(&space) <= 6, "what has not moved may be cached");
    });
}
