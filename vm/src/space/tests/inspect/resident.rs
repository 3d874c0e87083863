//! Resident memory, counted from the tables: pages that own frames, of both sizes, and what costs nothing.

use crate::space::tests::world::PAGE;
use crate::space::tests::world::huge::{HUGE, at, fault, map, pages, store, with_policies, with_space};
use crate::space::{Advice, Counter, Fault, MapRequest, Sharing};
use crate::table::Resident;
use crate::units::{Access, VirtAddr};
use crate::vma::{HugePolicy, ZeroPagePolicy};

#[test]
fn owned_pages_count_by_size_and_pages_of_zeros_do_not() {
    with_policies(12 * HUGE, (HugePolicy::Always, ZeroPagePolicy::Huge), |vm, space| {
        assert_eq!(space.inspect().resident(), Resident::default());
        map(&space, 0, 4 * HUGE);
        store(&space, 5, 1);
        store(&space, HUGE, 1);
        fault(&space, 2 * HUGE + 7, Access::Read);
        // A mapping of less than a huge page has base pages.
        map(&space, 4 * HUGE, 9);
        store(&space, 4 * HUGE, 1);
        fault(&space, 4 * HUGE + 1, Access::Read);
        let expected = Resident {
            base_pages: 1,
            huge_pages: 2,
            zero_pages: 1,
            huge_zero_pages: 1,
            ..Resident::default()
        };
        assert_eq!((space.inspect().resident(), expected.pages()), (expected, 2 * HUGE + 1));
        assert_eq!(vm.totals().get(Counter::NrAnonTransparentHugepages), 2);
        // A split keeps what is resident; what goes is what was unmapped.
        space.unmap(at(3), 2 * PAGE).unwrap();
        let split = Resident { base_pages: HUGE - 2 + 1, huge_pages: 1, ..expected };
        assert_eq!((space.inspect().resident(), split.pages()), (split, 2 * HUGE - 1));
        assert_eq!(space.inspect().resident_in(pages(1, 9)).pages(), 6);
        assert_eq!(
            space.inspect().resident_in(pages(HUGE + 1, HUGE + 2)).pages(),
            HUGE,
            "a part of a leaf is all of it"
        );
        assert_eq!(space.inspect().resident_in(pages(9, 1)), Resident::default());
        space.advise(at(HUGE), HUGE * PAGE, Advice::DontNeed).unwrap();
        assert_eq!(space.inspect().resident(), Resident { huge_pages: 0, ..split });
    });
}

#[test]
fn a_child_counts_what_it_shares_and_shared_memory_counts_in_each() {
    with_space(|_, space| {
        map(&space, 0, HUGE);
        store(&space, 0, 1);
        let request = MapRequest { sharing: Sharing::Shared, ..MapRequest::anonymous(4 * PAGE) };
        let shared = space.map(&request).unwrap();
        (0..4).for_each(|page| {
            let addr = VirtAddr(shared.0 + page * PAGE);
            space.fault(Fault { addr, access: Access::Write }).unwrap();
        });
        assert_eq!(space.inspect().resident().pages(), HUGE + 4);
        let child = space.fork().unwrap();
        assert_eq!(
            (space.inspect().resident().huge_pages, space.inspect().resident().base_pages),
            (1, 4),
            "shared by the fork"
        );
        // Linux copies no entries of shared memory: the child's faults find its pages again.
        let inherited = child.inspect().resident();
        assert!(inherited.huge_pages == 1 && inherited.base_pages <= 4, "{inherited:?}");
    });
}
