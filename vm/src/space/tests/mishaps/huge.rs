//! Every allocation of a call that splits fails in turn.

use crate::space::tests::world::PAGE;
use crate::space::tests::world::huge::{HUGE, TestSpace, at, fault, map, peek, store, with_space};
use crate::space::tests::world::mishaps::each_allocation;
use crate::space::{Advice, Error, Fault, MapRequest, Place};
use crate::units::Access;
use crate::vma::VmaFlags;

type Call = fn(&TestSpace<'_>) -> Result<(), Error>;
const CALLS: [(&str, Call); 8] = [
    ("unmap", |space| space.unmap(at(3), HUGE * PAGE)),
    ("protect", |space| space.protect(at(3), HUGE * PAGE, VmaFlags::READ)),
    ("discard", |space| space.advise(at(3), HUGE * PAGE, Advice::DontNeed)),
    ("free", |space| space.advise(at(3), HUGE * PAGE, Advice::Free)),
    ("map over", |space| {
        let place = Place::Fixed(at(3));
        space.map(&MapRequest { place, ..MapRequest::anonymous(HUGE * PAGE) }).map(drop)
    }),
    ("fork", |space| space.fork().map(drop)),
    ("store by another", |space| space.copy_to(at(3), &[3]).map(drop)),
    ("store by a debugger", |space| space.copy_to_forced(at(HUGE), &[HUGE as u8]).map(drop)),
];

#[test]
fn a_lack_of_memory_changes_no_mapping_and_no_contents() {
    for (name, call) in CALLS {
        let allocations = each_allocation(|nth| {
            let mut has_struck = false;
            with_space(|vm, space| {
                map(&space, 0, 2 * HUGE);
                (0..2 * HUGE).for_each(|page| store(&space, page, page as u8));
                vm.memory().plan_mishap(nth);
                let result = call(&space);
                has_struck = !vm.memory().is_mishap_planned();
                vm.memory().plan_mishap(0);
                if has_struck && result.is_err() {
                    assert_eq!(result, Err(Error::NoMemory), "{name}");
                    assert_eq!(space.inspect().nr_mappings(), 1, "{name}, allocation {nth}");
                    for page in 0..2 * HUGE {
                        assert_eq!(peek(&space, page), Some(page as u8), "{name}, allocation {nth}");
                        store(&space, page, 1);
                    }
                } else {
                    assert_eq!(result, Ok(()), "{name}, allocation {nth}");
                }
                vm.memory().check().unwrap();
            });
            has_struck
        });
        assert!(allocations > 0, "{name} allocates");
    }
}

#[test]
fn a_fault_that_lacks_a_block_gets_a_base_page() {
    for nth in 1..=6 {
        with_space(|vm, space| {
            map(&space, 0, HUGE);
            vm.memory().plan_mishap(nth);
            let result = space.fault(Fault { addr: at(5), access: Access::Write });
            vm.memory().plan_mishap(0);
            if result.is_err() {
                fault(&space, 5, Access::Write);
            }
            assert_eq!(peek(&space, 5), Some(0));
            vm.memory().check().unwrap();
        });
    }
}
