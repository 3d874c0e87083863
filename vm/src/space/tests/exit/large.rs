//! The end of a space of large mappings, with helpers.

use crate::space::tests::world::helpers::{with_helpers, with_helpers_and};
use crate::space::tests::world::large::{FIRST, GIANT, PAGE, PAGES, at, map, map_pfn, nr_pfn_pages};
use crate::space::*;
use crate::units::Access;
use crate::vma::HugePolicy;

/// The counts of the end are with `with_helpers`: all frames are given back.
#[test]
fn a_space_of_large_mappings_ends_with_one_flush() {
    with_helpers(1 << 14, |space| {
        let vm = space.vm();
        let other = AddressSpace::new(vm, *space.layout(), Path::Speculative).unwrap();
        map(&other, FIRST, PAGES);
        map(&other, FIRST + 2 * PAGES, PAGES);
        let before = vm.totals().get(Counter::TlbFlush);
        drop(other);
        assert_eq!(vm.totals().get(Counter::TlbFlush) - before, 1);
    });
}

#[test]
fn a_space_of_huge_leaves_ends_with_helpers() {
    with_helpers(1 << 12, |space| {
        map_pfn(space);
        assert_eq!(nr_pfn_pages(space), 6 * 512);
    });
}

/// Huge pages that helpers have cleared are counted as gone.
#[test]
fn the_end_of_a_space_with_huge_pages_leaves_none_counted() {
    with_helpers_and(HugePolicy::Always, 8 * 512, |space| {
        let request =
            MapRequest { place: Place::Fixed(at(8 * GIANT)), ..MapRequest::anonymous(3 * GIANT * PAGE) };
        space.map(&request).unwrap();
        for page in [8 * GIANT + 3, 10 * GIANT] {
            space.fault(Fault { addr: at(page), access: Access::Write }).unwrap();
        }
        assert_eq!(space.vm().totals().get(Counter::NrAnonTransparentHugepages), 2);
    });
}
