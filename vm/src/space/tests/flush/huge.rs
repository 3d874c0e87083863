//! A flush tells all pages of a huge leaf, though CPUs are told one: a device that copied them page by page
//! keeps none of those that have changed.

use crate::space::Advice;
use crate::space::tests::world::collapse::{collapse, fill, with_base_pages};
use crate::space::tests::world::huge::{
    BASE, HUGE, TestSpace, at, fault, map, pages, peek, store, with_frames, with_policies,
};
use crate::space::tests::world::zero::{load, with_table};
use crate::space::tests::world::{PAGE, check_copies, copy_translations};
use crate::tlb::FullGather;
use crate::units::{Access, Vpn, VpnRange};
use crate::vma::{HugePolicy, VmaFlags, ZeroPagePolicy};

/// Copies of a huge page that a call has changed whole.
const NONE: usize = 0;
/// Copies of one huge page: of its first two pages and of its last.
const ONE: usize = 3;

/// Does something to two huge pages that were stored to and copied; the second one stays. So many copies are
/// left of the first.
fn is_told(what: &str, left: usize, edit: impl FnOnce(&TestSpace<'_>)) {
    with_policies(12 * HUGE, (HugePolicy::Always, ZeroPagePolicy::Huge), |vm, space| {
        map(&space, 0, 2 * HUGE);
        (0..2).for_each(|nth| store(&space, nth * HUGE, 1));
        copy_translations(&space, pages(0, 2 * HUGE));
        assert_eq!(check_copies(&space), 2 * ONE);
        edit(&space);
        assert_eq!(check_copies(&space), left + ONE, "copies after {what}");
        drop(space);
        assert_eq!(vm.machine().nr_copies(), 0, "the end of a space tells everything");
    });
}

#[test]
fn what_clears_or_weakens_a_huge_leaf_tells_each_of_its_pages() {
    is_told("MADV_DONTNEED", NONE, |space| space.advise(at(0), HUGE * PAGE, Advice::DontNeed).unwrap());
    is_told("munmap", NONE, |space| space.unmap(at(0), HUGE * PAGE).unwrap());
    is_told("munmap of a part", NONE, |space| space.unmap(at(8), 8 * PAGE).unwrap());
    is_told("mprotect", NONE, |space| space.protect(at(0), HUGE * PAGE, VmaFlags::READ).unwrap());
    is_told("MADV_COLD", ONE, |space| space.advise(at(0), HUGE * PAGE, Advice::Cold).unwrap());
}

/// A page that the fork does not reach keeps its copies: it was mapped by no leaf that it shares.
#[test]
fn a_fork_tells_each_page_of_the_leaf_that_may_not_be_written_any_more() {
    with_frames(12 * HUGE, HugePolicy::Always, |_, space| {
        map(&space, 0, HUGE);
        store(&space, 0, 1);
        copy_translations(&space, pages(0, HUGE));
        let child = space.fork().unwrap();
        assert_eq!(check_copies(&space), NONE);
        copy_translations(&space, pages(0, HUGE));
        copy_translations(&child, pages(0, HUGE));
        // Base pages of it are copied next.
        store(&space, 9, 2);
        assert_eq!((check_copies(&space), check_copies(&child)), (NONE, ONE));
    });
}

#[test]
fn a_store_to_zeros_tells_each_of_their_pages() {
    for zeros in [ZeroPagePolicy::Huge, ZeroPagePolicy::Virtual] {
        with_policies(12 * HUGE, (HugePolicy::Always, zeros), |_, space| {
            map(&space, 0, HUGE);
            fault(&space, 0, Access::Read);
            copy_translations(&space, pages(0, HUGE));
            assert!(check_copies(&space) > 0);
            store(&space, 5, 1);
            assert_eq!(check_copies(&space), NONE);
        });
    }
}

#[test]
fn a_collapse_tells_all_pages_of_its_region_and_a_scan_tells_none() {
    with_base_pages(|_, space| {
        fill(&space, 0..HUGE);
        copy_translations(&space, pages(0, HUGE));
        space.walker().scan_accessed_and_flush(pages(0, HUGE), |_, _| ());
        assert_eq!(check_copies(&space), HUGE as usize);
        collapse(&space, 0).unwrap();
        assert_eq!(check_copies(&space), NONE);
    });
}

/// Before anything is free: tables that are cut at the end would tell their pages, too, but later.
#[test]
fn the_end_of_a_space_tells_all_of_its_pages_first() {
    with_frames(12 * HUGE, HugePolicy::Always, |vm, space| {
        map(&space, 0, HUGE);
        store(&space, 0, 1);
        copy_translations(&space, pages(0, HUGE));
        let all = VpnRange::new(Vpn(0), Vpn(1 << 36));
        let _full = FullGather::new(&vm.memory, &vm.rcu, &space.entries.tlb, all);
        assert_eq!((check_copies(&space), peek(&space, 0)), (NONE, Some(1)));
    });
}

type Edit<'t> = &'t dyn Fn(&TestSpace<'_>);

/// Every page is a page of its own in a TLB: whatever takes the leaf away flushes all of them.
#[test]
fn what_changes_the_leaf_flushes_each_of_its_pages() {
    let edits: [(&str, Edit<'_>); 6] = [
        ("a store", &|space| store(space, 5, 7)),
        ("munmap of a part", &|space| space.unmap(at(HUGE - 1), PAGE).unwrap()),
        ("munmap", &|space| space.unmap(at(0), HUGE * PAGE).unwrap()),
        ("MADV_DONTNEED", &|space| space.advise(at(0), HUGE * PAGE, Advice::DontNeed).unwrap()),
        ("mprotect", &|space| space.protect(at(0), HUGE * PAGE, VmaFlags::empty()).unwrap()),
        ("mprotect of a part", &|space| space.protect(at(9), PAGE, VmaFlags::READ).unwrap()),
    ];
    for (name, edit) in edits {
        with_table(|vm, space| {
            let running = space.activate(None);
            map(&space, 0, HUGE);
            load(&space, 0);
            let sees = |page| vm.machine().translate(Vpn(BASE + page), Access::Read).is_some();
            assert!((0..HUGE).step_by(7).all(sees));
            edit(&space);
            let stale = (0..HUGE).find(|&page| vm.machine().has_cached(0, Vpn(BASE + page)));
            assert_eq!(stale, None, "{name}: a page is cached still");
            drop(running);
        });
    }
}
