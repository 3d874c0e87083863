//! Debug builds notice edits outside of a guard's range.

use crate::frame::{BootMap, Init, Region, RegionKind};
use crate::machine::testing::{TestFormat, TestMachine};
use crate::space::edit::{VmaEdit, Zap};
use crate::space::{AddressSpace, Layout, MapRequest, Path, Place, Vm};
use crate::units::{NodeId, PAGE_SIZE, Vpn, VpnRange};
use crate::vma::{VmaFlags, VmaState};

type TestSpace<'a> = AddressSpace<'a, TestMachine>;

/// The pages of the mapping that each space here has.
const MAPPED: VpnRange = VpnRange { start: Vpn(1000), end: Vpn(1010) };

fn range(start: u64, end: u64) -> VpnRange {
    VpnRange::new(Vpn(start), Vpn(end))
}

/// Runs the test with a space of one mapping.
fn with_space(test: impl FnOnce(&TestSpace<'_>)) {
    let machine = TestMachine::new(500);
    let frames = machine.frames();
    let region = Region {
        start: frames.start.addr(),
        len_bytes: frames.len() * PAGE_SIZE as u64,
        kind: RegionKind::Usable(Init::Dirty),
        node: NodeId(0),
    };
    let vm = Vm::new(&machine, BootMap::new(&[region]).unwrap()).unwrap();
    let space = AddressSpace::new(&vm, Layout::linux::<TestFormat>(), Path::Speculative).unwrap();
    let place = Place::Fixed(MAPPED.start.addr());
    space.map(&MapRequest { place, ..MapRequest::anonymous(MAPPED.len_bytes()) }).unwrap();
    test(&space);
}

#[test]
fn a_writer_clears_its_range_and_reads_one_page_around_it() {
    with_space(|space| {
        let guard = space.write(range(1002, 1004));
        Zap::of_contents(&space.entries).run(guard.token(), range(1002, 1004));
        let edit = VmaEdit::new(&space.mappings, &guard);
        assert_eq!(edit.at(Vpn(1004)), edit.at(Vpn(1001)));
        assert!(space.mappings.first_in(guard.token(), range(1001, 1005)).is_some());
    });
}

#[test]
fn a_guard_of_all_covers_everything_and_one_of_two_ranges_both() {
    with_space(|space| {
        Zap::of_contents(&space.entries).run(space.write_all().token(), space.mappings.all_pages());
        let guard = space.write_two(range(1008, 1010), range(1000, 1002));
        [range(1000, 1002), range(1008, 1010)]
            .into_iter()
            .for_each(|part| Zap::of_contents(&space.entries).run(guard.token(), part));
    });
}

#[test]
#[should_panic = "is touched, but the guard holds"]
fn clearing_a_page_outside_of_the_range_is_noticed() {
    with_space(|space| {
        Zap::of_contents(&space.entries).run(space.write(range(1002, 1004)).token(), range(1002, 1005))
    });
}

#[test]
#[should_panic = "is touched, but the guard holds"]
fn clearing_a_page_between_two_ranges_is_noticed() {
    with_space(|space| {
        Zap::of_contents(&space.entries)
            .run(space.write_two(range(1000, 1002), range(1008, 1010)).token(), range(1004, 1005));
    });
}

#[test]
#[should_panic = "is touched, but the guard holds"]
fn clearing_under_a_lock_to_read_elsewhere_is_noticed() {
    with_space(|space| {
        Zap::of_contents(&space.entries).run(space.read(range(0, 2)).token(), range(1002, 1003))
    });
}

#[test]
#[should_panic = "is touched, but the guard holds"]
fn reading_a_mapping_two_pages_away_is_noticed() {
    with_space(|space| {
        let guard = space.write(range(1002, 1004));
        let _read = VmaEdit::new(&space.mappings, &guard).at(Vpn(1005));
    });
}

#[test]
#[should_panic = "is replaced, but the guard holds"]
fn replacing_a_mapping_elsewhere_is_noticed() {
    with_space(|space| {
        let guard = space.write(range(2000, 2004));
        let _done = VmaEdit::new(&space.mappings, &guard).replace(MAPPED, &[], MAPPED);
    });
}

#[test]
#[should_panic = "changes, but the guard holds"]
fn unmapping_pages_of_a_mapping_outside_of_the_range_is_noticed() {
    with_space(|space| {
        let guard = space.write(range(1002, 1004));
        let _done = VmaEdit::new(&space.mappings, &guard).replace(MAPPED, &[], MAPPED);
    });
}

#[test]
#[should_panic = "changes, but the guard holds"]
fn changing_attributes_outside_of_the_range_is_noticed() {
    with_space(|space| {
        let guard = space.write(range(1000, 1004));
        let edit = VmaEdit::new(&space.mappings, &guard);
        let attributes = edit.at(MAPPED.start).unwrap().with_flags(VmaFlags::READ);
        let _done = edit.replace(MAPPED, &[Some((attributes, VmaState::Live))], VpnRange::default());
    });
}

#[test]
fn a_mapping_may_be_split_at_the_range_and_keep_its_other_pages() {
    with_space(|space| {
        let guard = space.write(range(1002, 1004));
        let edit = VmaEdit::new(&space.mappings, &guard);
        let attributes = edit.at(Vpn(1002)).unwrap();
        let part = |start, end| Some((attributes.over(range(start, end)), VmaState::Live));
        edit.replace(MAPPED, &[part(1000, 1002), part(1004, 1010)], range(1002, 1004)).unwrap();
    });
}

#[test]
#[should_panic = "a guard of another space"]
fn a_guard_of_another_space_is_noticed() {
    with_space(|space| {
        let other = AddressSpace::new(space.vm(), *space.layout(), Path::Speculative).unwrap();
        Zap::of_contents(&space.entries).run(other.write_all().token(), MAPPED);
    });
}
