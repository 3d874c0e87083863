//! Spaces whose loads map the huge zero page.

use crate::space::Counter;
use crate::space::tests::world::huge::{HUGE, TestSpace, TestVm, fault, leaf, with_policies};
use crate::units::Access;
use crate::vma::{HugePolicy, ZeroPagePolicy};

pub(in crate::space::tests) fn with_table(test: impl FnOnce(&TestVm<'_>, TestSpace<'_>)) {
    with_policies(10 * HUGE, (HugePolicy::Always, ZeroPagePolicy::Virtual), test);
}

/// Whether the page is shown by the table.
pub(in crate::space::tests) fn is_by_table(space: &TestSpace<'_>, page: u64) -> bool {
    leaf(space, page).is_some_and(|(leaf, covers)| leaf.by_table() && !leaf.owned() && covers == HUGE)
}

/// Pages allocated, failures, leaves split, and huge pages there now.
pub(in crate::space::tests) const ZERO: [Counter; 4] = [
    Counter::ThpZeroPageAlloc,
    Counter::ThpZeroPageAllocFailed,
    Counter::ThpSplitPmd,
    Counter::NrAnonTransparentHugepages,
];

/// Runs the test with the huge zero page, and with a table in its place.
pub(in crate::space::tests) fn with_zero(test: impl Fn(&TestVm<'_>, TestSpace<'_>)) {
    with_the_page(&test);
    with_policies(10 * HUGE, (HugePolicy::Always, ZeroPagePolicy::Virtual), test);
}

pub(in crate::space::tests) fn with_the_page(test: impl FnOnce(&TestVm<'_>, TestSpace<'_>)) {
    with_policies(10 * HUGE, (HugePolicy::Always, ZeroPagePolicy::Huge), test);
}

/// Whether a leaf of the huge zero page maps the page.
pub(in crate::space::tests) fn is_zero(space: &TestSpace<'_>, page: u64) -> bool {
    leaf(space, page).is_some_and(|(leaf, covers)| covers == HUGE && !leaf.owned())
}

/// Whether the page is a base page of zeros that the space does not own.
pub(in crate::space::tests) fn is_small_zero(space: &TestSpace<'_>, page: u64) -> bool {
    let zero = space.vm().memory().zero_frame();
    leaf(space, page).is_some_and(|(leaf, covers)| covers == 1 && leaf.pfn == zero && !leaf.owned())
}

pub(in crate::space::tests) fn load(space: &TestSpace<'_>, page: u64) {
    fault(space, page, Access::Read);
}
