//! munmap in the hugetlb pool.

use crate::frame::HugetlbCounts;
use crate::space::tests::world::PAGE;
use crate::space::tests::world::pool::{
    BASE, BYTES, HUGE, RW, at, counts, fault, free, inside, map, map_shared, peek, request, store, with_pool,
};
use crate::space::{Advice, Error, Fault, FaultError, MapBacking, MapRequest, Place};
use crate::units::{Access, PageSize, Vpn};
use crate::vma::{FlagAdvice, PolicyRequest, VmaFlags};

#[test]
fn no_call_cuts_a_huge_page() {
    with_pool(2, |vm, space| {
        map(&space, 0, 2);
        store(&space, 0, 7);
        let invalid = Err(Error::Invalid);
        assert_eq!(space.unmap(at(0), BYTES - PAGE), invalid);
        assert_eq!(space.unmap(inside(0), BYTES), invalid);
        assert_eq!(space.unmap(inside(1), BYTES), invalid, "beyond the end");
        assert_eq!(space.protect(at(0), PAGE, VmaFlags::READ), invalid);
        assert_eq!(space.protect(inside(1), BYTES - PAGE, VmaFlags::READ), invalid);
        assert_eq!(space.advise(at(0), PAGE, Advice::Flag(FlagAdvice::DontFork)), invalid);
        assert_eq!(space.advise(inside(0), BYTES, Advice::DontNeed), invalid);
        assert_eq!(space.advise(at(0), BYTES, Advice::Free), invalid);
        assert_eq!(space.advise(at(0), BYTES, Advice::Flag(FlagAdvice::WipeOnFork)), invalid);
        let interleaved = PolicyRequest { nodes: 1, ..PolicyRequest::default() };
        let policy = PolicyRequest { mode: crate::vma::PolicyMode::Interleave, ..interleaved };
        assert_eq!(space.set_policy(at(0), PAGE, policy, Default::default()), invalid);
        let over = MapRequest { place: Place::Fixed(inside(0)), ..MapRequest::anonymous(PAGE) };
        assert_eq!(space.map(&over), Err(Error::Invalid));
        assert_eq!(
            space.map(
                &MapRequest { place: over.place, ..over }.backed_by(MapBacking::Hugetlb(PageSize::Huge))
            ),
            Err(Error::Invalid)
        );
        assert_eq!((space.inspect().nr_mappings(), peek(&space, 0)), (1, Some(7)));
        assert_eq!(counts(vm, &[&space], 2), (1, 1));
        // Advice that changes nothing cuts nothing.
        assert_eq!(space.protect(at(0), PAGE, RW), Ok(()));
        assert_eq!(space.advise(at(0), PAGE, Advice::DontNeed), Ok(()), "rounded down to nothing");
        assert_eq!(peek(&space, 0), Some(7));
    });
}

#[test]
fn whole_pages_are_unmapped_protected_and_mapped_over() {
    with_pool(5, |vm, space| {
        map(&space, 0, 5);
        (0..4).for_each(|page| store(&space, page, page as u8 + 1));
        space.unmap(at(1), BYTES).unwrap();
        assert_eq!((space.inspect().nr_mappings(), counts(vm, &[&space], 5)), (2, (2, 1)));
        space.protect(at(2), BYTES, VmaFlags::READ).unwrap();
        assert_eq!(fault(&space, 2, Access::Write), Err(FaultError::NotAllowed));
        assert_eq!((peek(&space, 2), space.inspect().nr_mappings()), (Some(3), 3));
        space.protect(at(2), BYTES, RW).unwrap();
        store(&space, 2, 9);
        assert_eq!(
            (peek(&space, 2), space.inspect().nr_mappings()),
            (Some(9), 3),
            "never joined, as in Linux"
        );
        // Base pages take the place of one, and the pool that of others.
        space.map(&request(3, 1)).unwrap();
        let HugetlbCounts { free, reserved, .. } = vm.memory().hugetlb().counts(PageSize::Huge);
        assert_eq!((free, reserved), (3, 1));
        for page in 0..HUGE {
            space.fault(Fault { addr: Vpn(BASE + 3 * HUGE + page).addr(), access: Access::Write }).unwrap();
        }
        map(&space, 2, 2);
        assert_eq!((peek(&space, 3), counts(vm, &[&space], 5)), (None, (4, 3)));
        store(&space, 3, 4);
        assert_eq!(peek(&space, 3), Some(4));
    });
}

#[test]
fn pages_stay_with_the_object_until_nobody_maps_a_page_of_it() {
    with_pool(3, |vm, space| {
        map_shared(&space, 0, 3);
        store(&space, 0, 1);
        store(&space, 1, 2);
        space.unmap(at(0), 2 * BYTES).unwrap();
        assert_eq!(free(vm), (1, 1), "the third page is mapped still");
        let child = space.fork().unwrap();
        space.unmap(at(2), BYTES).unwrap();
        assert_eq!(free(vm), (1, 1), "the child's is");
        store(&child, 2, 3);
        assert_eq!(free(vm), (0, 0));
        child.unmap(at(2), BYTES).unwrap();
        assert_eq!(free(vm), (3, 0));
    });
}

/// More than a gather has places for: they stay in their slots until the flush.
#[test]
fn many_shared_pages_are_unmapped_with_those_of_other_mappings() {
    with_pool(7, |vm, space| {
        map_shared(&space, 0, 4);
        map(&space, 4, 2);
        (0..6).for_each(|page| store(&space, page, 1));
        let child = space.fork().unwrap();
        for page in 0..4 {
            fault(&child, page, Access::Read).unwrap();
        }
        space.unmap(at(0), 6 * BYTES).unwrap();
        assert_eq!((0..4).map(|page| peek(&child, page)).collect::<std::vec::Vec<_>>(), [Some(1); 4]);
        drop(child);
        assert_eq!(free(vm), (7, 0));
    });
}
