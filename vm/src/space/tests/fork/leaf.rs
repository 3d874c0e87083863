//! A fork that has passed a huge leaf says so before it unlocks the table. No model shows it: between
//! the two steps a store has to split the leaf, to copy a page, and to reach a second page, and it yields
//! twice meanwhile, after which a model runs the fork to its end.

use super::{ChildEntry, DupEntry};
use crate::machine::testing::TestMachine;
use crate::space::tests::world::{PAGE, boot_map, space_of};
use crate::space::{Fault, MapRequest, Place, Vm, VmOptions};
use crate::units::{Access, Level, Order, PageSize, Vpn, VpnRange};
use crate::vma::{HugePolicy, pages_of};

const HUGE: u64 = PageSize::Huge.pages();
/// A page that is a multiple of all sizes.
const BASE: Vpn = Vpn(8 * PageSize::Giant.pages());

/// The access installs a huge leaf, which a fork under way passes.
fn pages_behind_a_fork_that_passes_what_this_installs(access: Access) {
    let machine = TestMachine::new(8 * HUGE);
    let options = VmOptions { huge_pages: HugePolicy::Always, ..VmOptions::default() };
    let vm = Vm::start(boot_map(&machine).claim(&machine).unwrap(), options).unwrap();
    let space = space_of(&vm);
    let place = Place::Fixed(BASE.addr());
    space.map(&MapRequest { place, ..MapRequest::anonymous(2 * HUGE * PAGE) }).unwrap();
    space.fault(Fault { addr: BASE.addr(), access }).unwrap();
    let pages: VpnRange = pages_of(Order::HUGE, BASE);
    let fork = space.entries.fork.begin();
    assert!(!space.entries.fork.is_behind(BASE), "nothing was passed");
    let duplicate = DupEntry { mappings: &space.mappings, entries: &space.entries, cursor: &fork };
    let child_entry = duplicate.run(pages, Level::Pmd).unwrap();
    let is_zero_page = matches!(child_entry, Some(ChildEntry::Zero(..)));
    assert!(is_zero_page || matches!(child_entry, Some(ChildEntry::Dup(..))), "no huge leaf is there");
    assert_eq!(is_zero_page, access == Access::Read);
    assert!(space.entries.fork.is_behind(Vpn(pages.end.0 - 1)), "the last page was passed");
    assert!(!space.entries.fork.is_behind(pages.end), "the page after them was not");
    drop(child_entry);
    drop(fork);
    assert!(!space.entries.fork.is_behind(BASE), "no fork is under way");
}

#[test]
fn a_fork_says_that_it_has_passed_a_huge_page() {
    pages_behind_a_fork_that_passes_what_this_installs(Access::Write);
}

#[test]
fn a_fork_says_that_it_has_passed_the_huge_zero_page() {
    pages_behind_a_fork_that_passes_what_this_installs(Access::Read);
}
