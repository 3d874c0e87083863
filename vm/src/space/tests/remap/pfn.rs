//! mremap of PFN-mapped frames.

use crate::machine::Entry;
use crate::machine::testing::TestMachine;
use crate::space::tests::world::remap::{FIXED, LEAVE, MAY_MOVE, remap};
use crate::space::tests::world::{PAGE, boot_map, space_of};
use crate::space::{AddressSpace, Error, MapBacking, MapRequest, Place, Sharing, Vm};
use crate::table::testing::pfnmap_nowhere;
use crate::table::walk;
use crate::units::{Level, PageSize, Pfn, PfnRange, Rights, VirtAddr, Vpn};

const HUGE: u64 = PageSize::Huge.pages();
const GIANT: u64 = PageSize::Giant.pages();
const FIRST: u64 = 16 * GIANT;
const BASE: u64 = 8 * GIANT;

fn at(page: u64) -> VirtAddr {
    Vpn(BASE + page).addr()
}

/// The frame of a page, and the pages that its leaf covers.
fn shown(space: &AddressSpace<'_, TestMachine>, page: u64) -> Option<(u64, u64)> {
    let reading = space.vm().read();
    let found = walk(space.inspect().page_table(), Vpn(BASE + page), Level::Pte, &reading);
    let covers = found.table.level().entry_pages();
    match found.entry() {
        Entry::Leaf(leaf) => Some((leaf.pfn.0 + ((BASE + page) & (covers - 1)) - FIRST, covers)),
        _ => None,
    }
}

#[test]
fn leaves_of_all_sizes_move_whole_or_in_parts() {
    let cases = [(0, GIANT + 2 * HUGE), (HUGE, HUGE + 5), (3, HUGE + 9), (GIANT - 4, HUGE)];
    for to in [4 * GIANT, 4 * GIANT + HUGE, 4 * GIANT + 7] {
        for (from, len) in cases {
            let machine = TestMachine::new(1000 + 3 * HUGE);
            let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
            let space = space_of(&vm);
            let frames =
                pfnmap_nowhere(PfnRange { start: Pfn(FIRST), end: Pfn(FIRST + 4 * GIANT) }, Rights::all());
            let backing = MapBacking::Pfn { frames: &frames, first: Pfn(FIRST), largest: PageSize::Giant };
            let request = MapRequest {
                place: Place::Fixed(at(0)),
                sharing: Sharing::Shared,
                ..MapRequest::anonymous((GIANT + 2 * HUGE) * PAGE)
            };
            space.map(&request.backed_by(backing)).unwrap();
            assert_eq!(remap(&space, (at(from), len * PAGE), (at(to), len * PAGE), FIXED), Ok(at(to)));
            for nr in [0, 1, HUGE - from % HUGE, len / 2, len - 1] {
                assert_eq!(shown(&space, to + nr).map(|(frame, _)| frame), Some(from + nr), "{from} {nr}");
                assert_eq!(shown(&space, from + nr), None);
            }
            if from == 0 && to == 4 * GIANT {
                assert_eq!(shown(&space, to), Some((0, GIANT)), "whole");
            }
            if from > 0 {
                assert_eq!(shown(&space, from - 1).map(|(frame, _)| frame), Some(from - 1));
            }
            let child = space.fork().unwrap();
            assert_eq!(shown(&child, to + len - 1).map(|(frame, _)| frame), Some(from + len - 1));
        }
    }
}

#[test]
fn a_mapping_of_fixed_frames_neither_grows_nor_stays() {
    let machine = TestMachine::new(1000);
    let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
    let space = space_of(&vm);
    let frames = pfnmap_nowhere(PfnRange { start: Pfn(FIRST), end: Pfn(FIRST + GIANT) }, Rights::all());
    let backing = MapBacking::Pfn { frames: &frames, first: Pfn(FIRST), largest: PageSize::Base };
    let request = MapRequest {
        place: Place::Fixed(at(0)),
        sharing: Sharing::Shared,
        ..MapRequest::anonymous(4 * PAGE)
    };
    space.map(&request.backed_by(backing)).unwrap();
    let four = (at(0), 4 * PAGE);
    assert_eq!(remap(&space, four, (at(9), 4 * PAGE), LEAVE), Err(Error::Invalid));
    assert_eq!(remap(&space, four, (at(9), 5 * PAGE), MAY_MOVE), Err(Error::Fault));
    assert_eq!(remap(&space, (at(0), 0), (at(9), PAGE), MAY_MOVE), Err(Error::Fault));
    assert_eq!(remap(&space, four, (at(9), PAGE), MAY_MOVE), Ok(at(0)));
    assert_eq!([0, 1].map(|nr| shown(&space, nr).is_some()), [true, false]);
}
