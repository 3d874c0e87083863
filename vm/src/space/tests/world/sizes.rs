//! Spaces with mTHP folios.

use crate::space::Counter;
use crate::space::tests::world::huge::{BASE, HUGE, TestSpace, TestVm, with_sizes};
use crate::units::{Order, Pfn, Vpn};
use crate::vma::{HugePolicy, MthpPolicies, MthpPolicy};

/// The only size that is used.
pub(in crate::space::tests) fn only(order: u8) -> MthpPolicies {
    MthpPolicies::NEVER.with(Order(order), MthpPolicy::Always)
}

/// Folios installed and not got, of an order.
pub(in crate::space::tests) fn folios(vm: &TestVm<'_>, order: u8) -> (u64, u64) {
    let counters = (Counter::anon_fault_alloc(Order(order)), Counter::anon_fault_fallback(Order(order)));
    (vm.totals().get(counters.0.unwrap()), vm.totals().get(counters.1.unwrap()))
}

pub(in crate::space::tests) fn with_only(order: u8, test: impl FnOnce(&TestVm<'_>, TestSpace<'_>)) {
    with_sizes(8 * HUGE, (HugePolicy::Never, only(order)), test);
}

/// The frame of a page.
pub(in crate::space::tests) fn frame(space: &TestSpace<'_>, page: u64) -> Pfn {
    space.inspect().resident_frame(Vpn(BASE + page)).expect("the page is resident").0
}
