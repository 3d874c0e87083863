//! Every allocation fails in turn: of faults on huge pages of shared memory, and of calls on parts of them.

use crate::machine::Format;
use crate::machine::testing::{TestFormat, TestMachine};
use crate::space::tests::world::PAGE;
use crate::space::tests::world::huge::{HUGE, at};
use crate::space::tests::world::mishaps::each_allocation;
use crate::space::tests::world::shared_huge::{
    Space, fault, in_each, is_base, is_huge, leaf, load, map, map_same, recount, run, store,
};
use crate::space::{Advice, Error, Fault, Path, Vm};
use crate::table::format::{Aarch64, X86_64};
use crate::units::Access;
use crate::vma::{SharedHugePolicy, VmaFlags};

/// Plays `call`, with its `nth` allocation refused, on two spaces whose object has a byte in each page. False
/// where it has fewer.
fn strike<F: Format>(
    vm: &Vm<'_, TestMachine<F>>,
    space: &Space<'_, F>,
    nth: u64,
    call: fn(&Space<'_, F>) -> Result<(), Error>,
) -> bool {
    map(space, 0, 2 * HUGE);
    (0..2 * HUGE).for_each(|page| store(space, page, page as u8));
    let child = space.fork().unwrap();
    assert_eq!(load(&child, 1), 1);
    vm.memory().plan_mishap(nth);
    let result = call(space);
    let has_struck = !vm.memory().is_mishap_planned();
    vm.memory().plan_mishap(0);
    assert!(result.is_ok() || has_struck && result == Err(Error::NoMemory), "{result:?}");
    for page in 0..2 * HUGE {
        assert_eq!(load(&child, page), page as u8, "allocation {nth}");
        if result.is_err() {
            store(space, page, page as u8);
        }
    }
    assert_eq!(recount(vm, &[space, &child]), 2 * HUGE);
    has_struck
}

#[test]
fn a_lack_of_memory_changes_no_mapping_and_no_contents() {
    fn each<F: Format>(call: fn(&Space<'_, F>) -> Result<(), Error>, allocates: bool) {
        let allocations = each_allocation(|nth| {
            let mut has_struck = false;
            run::<F>(8 * HUGE, SharedHugePolicy::Always, Path::Speculative, |vm, space| {
                has_struck = strike(vm, &space, nth, call);
            });
            has_struck
        });
        assert_eq!(allocations > 0, allocates);
    }
    each::<TestFormat>(|space| space.unmap(at(3), HUGE * PAGE), true);
    each::<X86_64>(|space| space.protect(at(3), HUGE * PAGE, VmaFlags::READ), true);
    // No mapping changes, and a leaf that is cleared needs no table.
    each::<Aarch64>(|space| space.advise(at(3), HUGE * PAGE, Advice::DontNeed), false);
    each::<TestFormat>(|space| space.copy_to(at(3), &[3]).map(drop), true);
}

#[test]
fn a_fault_that_lacks_memory_changes_nothing_or_gets_a_base_page() {
    fn test<F: Format>(vm: &Vm<'_, TestMachine<F>>, space: Space<'_, F>) {
        let mut base = 0;
        for nth in 1..=8 {
            let child = space.fork().unwrap();
            map(&child, 0, 600 * HUGE);
            vm.memory().plan_mishap(nth);
            let result = child.fault(Fault { addr: at(599 * HUGE), access: Access::Write });
            vm.memory().plan_mishap(0);
            if result.is_err() {
                assert_eq!(leaf(&child, 599 * HUGE), None);
                fault(&child, 599 * HUGE, Access::Write);
            }
            assert_eq!(load(&child, 599 * HUGE), 0);
            base += u64::from(is_base(&child, 599 * HUGE));
            // A page of it elsewhere: nothing to allocate for the folio.
            if is_huge(&child, 599 * HUGE) {
                map_same(&child, 700 * HUGE, &child, 599 * HUGE, 8);
                vm.memory().plan_mishap(nth);
                let _lacks_a_table = child.fault(Fault { addr: at(700 * HUGE + 1), access: Access::Read });
                vm.memory().plan_mishap(0);
                assert_eq!(load(&child, 700 * HUGE + 1), 0);
            }
            drop(child);
            vm.memory().check().unwrap();
        }
        assert!(base > 0, "a folio lacks once");
    }
    in_each!(6 * HUGE, Always, test);
}
