//! munmap, mprotect, madvise and mbind of memory of the pool.

use super::*;
use crate::space::Advice;
use crate::vma::{FlagAdvice, PolicyRequest};

fn inside(page: u64) -> VirtAddr {
    VirtAddr(at(page).0 + PAGE)
}

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

/// As in Linux, which splits at the start first: that is allowed, and stays.
#[test]
fn a_change_that_cuts_a_page_at_its_end_alone_splits_at_its_start() {
    with_pool(3, |_, space| {
        map(&space, 0, 3);
        store(&space, 1, 7);
        assert_eq!(space.protect(at(1), PAGE, VmaFlags::READ), Err(Error::Invalid));
        assert_eq!((space.inspect().nr_mappings(), peek(&space, 1)), (2, Some(7)));
        store(&space, 1, 8);
        assert_eq!(space.protect(inside(0), BYTES, VmaFlags::READ), Err(Error::Invalid));
        assert_eq!(space.inspect().nr_mappings(), 2);
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
fn mapping_over_a_mapping_of_the_pool_uses_what_that_had() {
    with_pool(2, |vm, space| {
        map(&space, 0, 2);
        store(&space, 0, 1);
        map(&space, 0, 2);
        assert_eq!((peek(&space, 0), counts(vm, &[&space], 2)), (None, (2, 2)));
        // More than there is: what was mapped there is gone, as in Linux.
        assert_eq!(try_map(&space, 0, 3), Err(Error::NoMemory));
        assert_eq!((space.inspect().nr_mappings(), counts(vm, &[&space], 2)), (0, (2, 0)));
    });
}

#[test]
fn dropped_contents_are_set_aside_again() {
    with_pool(3, |vm, space| {
        map(&space, 0, 2);
        map_unreserved(&space, 2, 1);
        (0..3).for_each(|page| store(&space, page, 1));
        assert_eq!(counts(vm, &[&space], 3), (0, 0));
        space.advise(at(0), 3 * BYTES, Advice::DontNeed).unwrap();
        assert_eq!((peek(&space, 0), counts(vm, &[&space], 3)), (None, (3, 2)));
        // Only the one that is not set aside is to be had.
        assert_eq!(try_map(&space, 8, 2), Err(Error::NoMemory));
        map(&space, 8, 1);
        assert_eq!(fault(&space, 2, Access::Write), Err(FaultError::HugetlbEmpty));
        (0..2).for_each(|page| store(&space, page, 2));
        assert_eq!(peek(&space, 1), Some(2));
        // The end is rounded down.
        space.advise(at(0), 2 * BYTES - PAGE, Advice::DontNeed).unwrap();
        assert_eq!((peek(&space, 0), peek(&space, 1)), (None, Some(2)));
    });
}

#[test]
fn the_heap_does_not_shrink_into_a_huge_page() {
    with_pool(1, |_, space| {
        let start = space.layout().heap_start;
        let end = VirtAddr(start.0 + 4 * BYTES);
        assert_eq!(space.brk(end), end);
        let page = VirtAddr((start.0 + BYTES).next_multiple_of(BYTES));
        let over = MapRequest { place: Place::Fixed(page), ..MapRequest::anonymous(BYTES) };
        space.map(&over.backed_by(MapBacking::Hugetlb(PageSize::Huge))).unwrap();
        assert_eq!(space.brk(VirtAddr(page.0 + PAGE)), end, "refused");
        assert_eq!(space.brk(page), page);
    });
}

#[test]
fn advice_about_huge_pages_leaves_them_as_they_are() {
    with_pool(1, |_, space| {
        map(&space, 0, 1);
        store(&space, 0, 1);
        for advice in [FlagAdvice::DontFork, FlagAdvice::DoFork, FlagAdvice::DontDump, FlagAdvice::DoDump] {
            space.advise(at(0), BYTES, Advice::Flag(advice)).unwrap();
        }
        for advice in [FlagAdvice::HugePage, FlagAdvice::NoHugePage] {
            assert_eq!(space.advise(at(0), BYTES, Advice::Flag(advice)), Ok(()));
        }
        assert_eq!(space.advise(at(0), BYTES, Advice::Cold), Err(Error::Invalid));
        assert_eq!(space.advise(at(0), BYTES, Advice::WillNeed), Ok(()));
        assert!(space.collapse(at(0), BYTES).is_err());
        assert_eq!(peek(&space, 0), Some(1));
    });
}

#[test]
fn memory_of_the_pool_is_not_counted_as_committed() {
    with_pool(2, |vm, space| {
        let layout = crate::space::Layout { max_commit_pages: Some(HUGE), ..*space.layout() };
        drop(space);
        let space = AddressSpace::new(vm, layout, crate::space::Path::Speculative).unwrap();
        map(&space, 0, 2);
        space.protect(at(0), 2 * BYTES, VmaFlags::READ).unwrap();
        space.protect(at(0), 2 * BYTES, RW).unwrap();
        (0..2).for_each(|page| store(&space, page, 1));
        assert_eq!(space.fork().map(drop), Ok(()));
    });
}
