//! A huge leaf leaves a TLB by one of its pages: no edit of one flushes everything.

use crate::space::Advice;
use crate::space::tests::world::PAGE;
use crate::space::tests::world::huge::{BASE, HUGE, TestSpace, at, fault, map, store, with_policies};
use crate::sync::atomic::Ordering::Relaxed;
use crate::units::{Access, Vpn};
use crate::vma::{HugePolicy, ZeroPagePolicy};

/// Flushes of ranges, and of everything, that `edit` made on this CPU, which runs the space.
fn flushes_of(space: &TestSpace<'_>, edit: impl FnOnce()) -> [u64; 2] {
    let machine = space.vm().machine();
    let counted = || [&machine.range_flushes, &machine.full_flushes].map(|count| count.load(Relaxed));
    let before = counted();
    edit();
    let after = counted();
    [after[0] - before[0], after[1] - before[1]]
}

#[test]
fn one_leaf_is_flushed_by_one_page_whatever_is_done_to_it() {
    with_policies(12 * HUGE, (HugePolicy::Always, ZeroPagePolicy::Huge), |vm, space| {
        let running = space.activate(None);
        map(&space, 0, 6 * HUGE);
        (0..4).for_each(|nth| store(&space, nth * HUGE, 1));
        let seen = |page| vm.machine().translate(Vpn(BASE + page), Access::Read).is_some();
        assert!((0..4 * HUGE).step_by(64).all(seen), "the CPU has the leaves cached");
        let drop_contents = || space.advise(at(0), HUGE * PAGE, Advice::DontNeed).unwrap();
        assert_eq!(flushes_of(&space, drop_contents), [1, 0], "MADV_DONTNEED of a whole one");
        assert!(!(0..HUGE).step_by(64).any(seen), "no part of it is translated any more");
        let unmap = |page, pages| space.unmap(at(page), pages * PAGE).unwrap();
        assert_eq!(flushes_of(&space, || unmap(HUGE, HUGE)), [1, 0], "munmap of a whole one");
        assert!(!(HUGE..2 * HUGE).step_by(64).any(seen));
        // The split, and what is unmapped.
        assert_eq!(flushes_of(&space, || unmap(2 * HUGE + 8, 8)), [2, 0], "munmap of a part");
        assert!(!(8..16).any(|page| seen(2 * HUGE + page)) && seen(2 * HUGE + 16));
        fault(&space, 4 * HUGE, Access::Read);
        assert!(seen(4 * HUGE + 9));
        let store_to_zeros = || fault(&space, 4 * HUGE + 1, Access::Write);
        assert_eq!(flushes_of(&space, store_to_zeros), [1, 0], "a store to the huge zero page");
        let [_, full] = flushes_of(&space, || unmap(3 * HUGE, 2 * HUGE));
        assert_eq!(full, 1, "two leaves are more pages than a TLB drops one by one");
        assert!(!(3 * HUGE..5 * HUGE).step_by(64).any(seen));
        drop(running);
    });
}
