//! mTHP sizes where memory is in fragments or short, or another CPU is faster.

use crate::frame::{AllocRequest, Frame, Priority};
use crate::machine::testing::TestMachine;
use crate::space::fault::{Prepared, Speculated};
use crate::space::tests::world::huge::{HUGE, TestVm, at, fault, map, peek, resident, store, with_sizes};
use crate::space::{Counter, Fallback, Fault};
use crate::units::{Access, Order};
use crate::vma::{HugePolicy, MthpPolicies, MthpPolicy};
use std::vec::Vec;

/// Takes all memory, and gives back what does not lie in the first frame of a folio of the order.
fn fragment<'m>(vm: &'m TestVm<'_>, order: Order) -> Vec<Frame<'m, TestMachine>> {
    let last = AllocRequest::DIRTY.with_priority(Priority::Reserve);
    let all: Vec<_> = core::iter::from_fn(|| vm.memory().alloc_frame(last)).collect();
    let kept = all.into_iter().filter(|frame| frame.pfn().is_aligned(order)).collect();
    vm.trim();
    kept
}

fn fallbacks(vm: &TestVm<'_>) -> Vec<u64> {
    let count = |order| vm.totals().get(Counter::anon_fault_fallback(order).unwrap());
    MthpPolicies::orders().map(count).collect()
}

fn installed(vm: &TestVm<'_>) -> Vec<u64> {
    let count = |order| vm.totals().get(Counter::anon_fault_alloc(order).unwrap());
    MthpPolicies::orders().map(count).collect()
}

#[test]
fn where_no_block_is_free_the_next_smaller_size_is_tried_and_its_lack_counted() {
    for largest_free in 0..=6 {
        let sizes = MthpPolicies::all(MthpPolicy::Always);
        with_sizes(8 * HUGE, (HugePolicy::Never, sizes), |vm, space| {
            let kept = fragment(vm, Order(largest_free + 1));
            map(&space, 0, HUGE);
            store(&space, 77, 7);
            let (fell, got) = (fallbacks(vm), installed(vm));
            for (size, order) in MthpPolicies::orders().enumerate() {
                assert_eq!(fell[size], u64::from(order.0 > largest_free), "{order:?} of {largest_free}");
                let is_it = order.0 == largest_free;
                assert_eq!(got[size], u64::from(is_it), "{order:?} of {largest_free}");
            }
            let pages = if largest_free >= 2 { 1 << largest_free } else { 1 };
            assert_eq!((resident(&space, HUGE), peek(&space, 77)), (pages, Some(7)));
            drop(kept);
        });
    }
}

#[test]
fn where_no_zone_has_a_block_a_fault_makes_do_with_a_base_page_at_once() {
    let sizes = MthpPolicies::all(MthpPolicy::Always);
    with_sizes(8 * HUGE, (HugePolicy::Never, sizes), |vm, space| {
        map(&space, 0, HUGE);
        let one_attempt = |page| {
            let write = Fault { addr: at(page), access: Access::Write };
            space.faults().attempt(write, &Speculated, &mut Prepared::new(vm))
        };
        store(&space, 300, 1);
        assert_eq!(resident(&space, HUGE), 256, "a folio");
        assert_eq!(one_attempt(0), Err(Fallback::Unprepared), "there are folios, outside of the attempt");
        let kept = fragment(vm, Order(2));
        (0..8).for_each(|nth| assert_eq!(one_attempt(nth * 16), Ok(())));
        assert_eq!(resident(&space, HUGE), 256 + 8);
        assert_eq!(fallbacks(vm), std::vec![8, 8, 8, 4, 2, 1, 1], "each size that fits, each time");
        drop(kept);
        vm.trim();
        store(&space, 200, 1);
        assert_eq!(resident(&space, HUGE), 256 + 8 + 128, "blocks are free again");
    });
}

#[test]
fn a_size_that_is_off_is_passed_over() {
    let sizes = MthpPolicies::all(MthpPolicy::Always).with(Order(5), MthpPolicy::Never);
    with_sizes(8 * HUGE, (HugePolicy::Never, sizes), |vm, space| {
        let kept = fragment(vm, Order(6));
        map(&space, 0, HUGE);
        store(&space, 77, 7);
        assert_eq!(
            (fallbacks(vm), installed(vm)),
            (std::vec![0, 0, 0, 0, 1, 1, 1], std::vec![0, 0, 1, 0, 0, 0, 0])
        );
        drop(kept);
    });
}

#[test]
fn every_allocation_of_a_fault_that_wants_a_folio_fails_in_turn() {
    for nth in 1..=12 {
        let sizes = MthpPolicies::all(MthpPolicy::Inherit);
        with_sizes(8 * HUGE, (HugePolicy::Always, sizes), |vm, space| {
            map(&space, 0, HUGE);
            vm.memory().plan_mishap(nth);
            let result = space.fault(Fault { addr: at(5), access: Access::Write });
            vm.memory().plan_mishap(0);
            if result.is_err() {
                fault(&space, 5, Access::Write);
            }
            assert_eq!(peek(&space, 5), Some(0), "allocation {nth}");
            vm.memory().check().unwrap();
        });
    }
}

#[test]
fn a_folio_that_does_not_fit_any_more_is_free_again_as_zeroed() {
    let sizes = MthpPolicies::all(MthpPolicy::Always);
    with_sizes(8 * HUGE, (HugePolicy::Never, sizes), |vm, space| {
        map(&space, 0, HUGE);
        let mut prepared = Prepared::new(vm);
        let write = Fault { addr: at(5), access: Access::Write };
        assert_eq!(space.faults().attempt(write, &Speculated, &mut prepared), Err(Fallback::Unprepared));
        space.entries.bring(&mut prepared);
        // Another thread has read a page of the folio.
        fault(&space, 8, Access::Read);
        assert_eq!(space.faults().attempt(write, &Speculated, &mut prepared), Err(Fallback::Unprepared));
        space.entries.bring(&mut prepared);
        assert_eq!(space.faults().attempt(write, &Speculated, &mut prepared), Ok(()));
        assert_eq!((resident(&space, HUGE), installed(vm)[1]), (8 + 1, 1), "32 KiB fit beside that page");
        drop(prepared);
        // A store to the page itself makes the folio one page.
        let mut prepared = Prepared::new(vm);
        let write = Fault { addr: at(300), access: Access::Write };
        assert_eq!(space.faults().attempt(write, &Speculated, &mut prepared), Err(Fallback::Unprepared));
        space.entries.bring(&mut prepared);
        fault(&space, 301, Access::Read);
        fault(&space, 298, Access::Read);
        assert_eq!(space.faults().attempt(write, &Speculated, &mut prepared), Ok(()));
        assert_eq!((resident(&space, HUGE), fallbacks(vm)), (12, std::vec![0; 7]));
    });
}
