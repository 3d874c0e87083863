//! What mremap refuses, in Linux's order, and what is left then. Each line was asked of Linux 6.18.

use crate::space::tests::world::PAGE;
use crate::space::tests::world::base::{TABLE, TestSpace, load, map, page, store, with_space};
use crate::space::tests::world::bounded;
use crate::space::tests::world::mishaps::each_allocation;
use crate::space::tests::world::remap::{FIXED, IN_PLACE, LEAVE, MAY_MOVE, remap};
use crate::space::tests::world::rmap::assert_agrees;
use crate::space::{Error, MapRequest, Place, RemapFlags};
use crate::units::VirtAddr;
use crate::vma::VmaFlags;
use std::vec::Vec;

fn all(space: &TestSpace<'_>) -> Vec<crate::vma::VmaAttributes> {
    let mut all = Vec::new();
    space.inspect().each_vma(|vma| all.push(*vma));
    all
}

/// Three mappings of a page each: the second may not be written.
fn three(space: &TestSpace<'_>) {
    map(space, 0, 3);
    space.protect(page(1), PAGE, VmaFlags::READ).unwrap();
}

#[test]
fn senseless_words_change_nothing() {
    with_space(|_, space| {
        three(&space);
        let before = all(&space);
        let end = space.layout().areas.user.end.addr();
        let odd = |addr: VirtAddr| VirtAddr(addr.0 + 1);
        let fixed_alone = RemapFlags::FIXED;
        let cases = [
            ("unaligned", odd(page(0)), PAGE, PAGE, MAY_MOVE, page(9), Error::Invalid),
            ("no new length", page(0), PAGE, 0, MAY_MOVE, page(9), Error::Invalid),
            ("a new length that wraps", page(0), PAGE, u64::MAX, MAY_MOVE, page(9), Error::Invalid),
            ("more than there is", page(0), PAGE, end.0 + PAGE, MAY_MOVE, page(9), Error::Invalid),
            ("no room", page(0), PAGE, end.0, MAY_MOVE, page(9), Error::NoMemory),
            ("nothing there", page(5), PAGE, PAGE, MAY_MOVE, page(9), Error::Fault),
            ("nothing there", page(5), PAGE, PAGE, FIXED, page(9), Error::Fault),
            ("a hole first", page(3), 3 * PAGE, 3 * PAGE, FIXED, page(9), Error::Fault),
            ("an odd place", page(0), PAGE, PAGE, FIXED, odd(page(9)), Error::Invalid),
            ("a place without leave to move", page(0), PAGE, PAGE, fixed_alone, page(9), Error::Invalid),
            ("over itself", page(0), 2 * PAGE, 2 * PAGE, FIXED, page(1), Error::Invalid),
            ("over itself", page(1), PAGE, PAGE, LEAVE, page(1), Error::Invalid),
            ("beyond the end", page(0), PAGE, PAGE, FIXED, end, Error::Invalid),
            ("left, and longer", page(0), PAGE, 2 * PAGE, LEAVE, page(9), Error::Invalid),
            ("twice, of private memory", page(0), 0, PAGE, MAY_MOVE, page(9), Error::Invalid),
            ("an old length that wraps", page(0), u64::MAX, PAGE, MAY_MOVE, page(9), Error::Invalid),
            ("two, and longer", page(0), 2 * PAGE, 3 * PAGE, FIXED, page(9), Error::Fault),
            ("three to two", page(0), 3 * PAGE, 2 * PAGE, FIXED, page(9), Error::Fault),
            ("two, left", page(0), 2 * PAGE, 2 * PAGE, LEAVE, page(9), Error::Fault),
            ("blocked", page(0), PAGE, 2 * PAGE, IN_PLACE, page(9), Error::NoMemory),
            ("an end that wraps", page(5), u64::MAX - PAGE, PAGE, FIXED, page(9), Error::Fault),
            ("an end beyond the space", page(0), end.0, PAGE, MAY_MOVE, page(9), Error::Invalid),
        ];
        for (what, addr, old, new, flags, to, error) in cases {
            assert_eq!(remap(&space, (addr, old), (to, new), flags), Err(error), "{what}");
            assert_eq!(all(&space), before, "{what}");
        }
        let lowest = VirtAddr(PAGE);
        assert_eq!(remap(&space, (page(0), PAGE), (lowest, PAGE), LEAVE), Err(Error::NotPermitted));
        assert_eq!(remap(&space, (page(0), PAGE), (lowest, PAGE), FIXED), Err(Error::NotPermitted));
        assert_eq!(all(&space), before);
        // Of the same length, and elsewhere with none asked for: nothing is checked.
        assert_eq!(remap(&space, (page(0), 9 * PAGE), (VirtAddr(3), 9 * PAGE), MAY_MOVE), Ok(page(0)));
    });
}

#[test]
fn a_refused_move_leaves_what_it_has_unmapped_by_then() {
    with_space(|_, space| {
        three(&space);
        map(&space, 9, 3);
        // Shorter: the mappings behind are unmapped, though they are others.
        assert_eq!(remap(&space, (page(0), 3 * PAGE), (page(10), PAGE), FIXED), Ok(page(10)));
        assert_eq!(all(&space).len(), 1, "the page has joined what is around it");
        assert!([0, 1, 2].iter().all(|&nr| space.inspect().vma_at(page(nr)).is_none()));
    });
}

#[test]
fn pages_that_cannot_be_committed_are_not_made() {
    let layout = crate::space::Layout {
        max_commit_pages: Some(100),
        ..crate::space::Layout::linux::<crate::machine::testing::TestFormat>()
    };
    bounded::with_layout(layout, |space| {
        bounded::map(space, 0, 50);
        bounded::map(space, 300, 1);
        let at = bounded::page;
        for flags in [IN_PLACE, MAY_MOVE] {
            assert_eq!(remap(space, (at(0), 50 * PAGE), (at(0), 151 * PAGE), flags), Err(Error::NoMemory));
        }
        assert_eq!(remap(space, (at(0), PAGE), (at(300), 102 * PAGE), FIXED), Err(Error::NoMemory));
        assert!(bounded::mappings(space).len() == 1, "what was in the way is gone, as in Linux");
        assert_eq!(remap(space, (at(0), 50 * PAGE), (at(0), 100 * PAGE), IN_PLACE), Ok(at(0)));
    });
}

#[test]
fn a_move_wants_room_for_four_mappings_more() {
    for (max, moved) in [(4, false), (5, true)] {
        bounded::with_space(max, |space| {
            bounded::map(space, 0, 2);
            let at = bounded::page;
            let request = MapRequest {
                place: Place::Fixed(at(2)),
                flags: VmaFlags::READ,
                ..MapRequest::anonymous(PAGE)
            };
            // In the way.
            let other = max == 5;
            if other {
                assert_eq!(
                    remap(space, (at(1), PAGE), (at(9), PAGE), FIXED),
                    Err(Error::NoMemory),
                    "a place"
                );
            }
            if other {
                let grown = remap(space, (at(0), PAGE), (at(0), 4 * PAGE), MAY_MOVE);
                assert!(grown.is_ok() == moved, "{grown:?}");
            } else {
                space.map(&request).unwrap();
                let grown = remap(space, (at(1), PAGE), (at(0), 4 * PAGE), MAY_MOVE);
                assert_eq!(grown, Err(Error::NoMemory));
            }
        });
    }
}

/// Whichever allocation is refused, and the next ones: the pages are where they were, or have moved.
#[test]
fn a_lack_of_memory_leaves_the_pages_where_they_were() {
    for (leaves, distance) in [(false, 0), (false, 3), (true, 3)] {
        let allocations = each_allocation(|nth| {
            let has_struck = core::cell::Cell::new(false);
            with_space(|vm, space| {
                let (len, to) = (TABLE + 4, 6 * TABLE + distance);
                map(&space, 0, len);
                let used = [0, 7, TABLE - 1, TABLE, TABLE + 3];
                used.iter().for_each(|&nr| store(&space, page(nr), nr as u8));
                let flags = if leaves { FIXED | LEAVE } else { FIXED };
                let before = all(&space);
                vm.memory().plan_mishaps(nth, 64);
                let moved = remap(&space, (page(0), len * PAGE), (page(to), len * PAGE), flags);
                has_struck.set(!vm.memory().is_mishap_planned());
                vm.memory().plan_mishap(0);
                let at = match moved {
                    Ok(_) => to,
                    Err(error) => {
                        assert_eq!((error, all(&space)), (Error::NoMemory, before), "allocation {nth}");
                        0
                    }
                };
                used.iter().for_each(|&nr| assert_eq!(load(&space, page(at + nr)), nr as u8, "page {nr}"));
                store(&space, page(at + 1), 1);
                vm.memory().check().unwrap();
                space.inspect().check_index().unwrap();
                assert_eq!(assert_agrees(vm, &[space], 8 * TABLE), 1);
            });
            has_struck.get()
        });
        assert!(allocations >= 4, "{allocations} allocations");
    }
}
