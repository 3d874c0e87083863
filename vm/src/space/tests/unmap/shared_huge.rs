//! munmap of huge pages of shared memory.

use crate::machine::Format;
use crate::machine::testing::TestMachine;
use crate::space::tests::world::PAGE;
use crate::space::tests::world::huge::{BASE, HUGE, at};
use crate::space::tests::world::shared_huge::{
    Space, THP, counted, fault, in_each, is_base, is_huge, leaf, load, map, recount, shared, store,
};
use crate::space::{Advice, Counter, Vm};
use crate::units::{Access, Vpn};

#[test]
fn munmap_of_a_part_clears_the_leaf_and_needs_no_memory() {
    fn test<F: Format>(vm: &Vm<'_, TestMachine<F>>, space: Space<'_, F>) {
        let child = shared(&space);
        // More pieces than one: so that the call allocates records, but no table. Both ends are inside.
        let tables = vm.totals().get(Counter::TableAlloc);
        space.unmap(at(HUGE - 2), 4 * PAGE).unwrap();
        assert_eq!(vm.totals().get(Counter::TableAlloc), tables);
        for page in [0, HUGE - 3, HUGE + 2, 2 * HUGE - 1] {
            assert_eq!(leaf(&space, page), None, "page {page} comes by a fault");
        }
        assert_eq!(vm.totals().get(Counter::ThpSplitPmd), 2);
        assert_eq!((counted(vm, THP), recount(vm, &[&space, &child])), ([2, 0, 4, 2], 2 * HUGE));
        for page in [0, HUGE - 3, HUGE + 2, 2 * HUGE - 1] {
            assert_eq!((load(&space, page), is_base(&space, page)), (page as u8, true));
        }
        assert!(is_huge(&child, 0) && is_huge(&child, HUGE), "another space's leaf is its own");
        store(&space, HUGE + 2, 99);
        assert_eq!(load(&child, HUGE + 2), 99);
        assert_eq!(recount(vm, &[&space, &child]), 2 * HUGE);
    }
    in_each!(8 * HUGE, Always, test);
}

#[test]
fn no_cpu_keeps_a_leaf_that_a_call_has_cleared() {
    fn test<F: Format>(_: &Vm<'_, TestMachine<F>>, space: Space<'_, F>) {
        let machine = space.vm().machine();
        let running = space.activate(None);
        let calls: [fn(&Space<'_, F>); 3] = [
            |space| space.advise(at(3), PAGE, Advice::DontNeed).unwrap(),
            |space| assert_eq!(space.copy_to(at(3), &[1]), Ok(1)),
            |space| space.unmap(at(3), PAGE).unwrap(),
        ];
        for call in calls {
            // Anew, since a pin leaves a table.
            map(&space, 0, HUGE);
            fault(&space, 0, Access::Write);
            assert!(is_huge(&space, 0));
            machine.translate(Vpn(BASE), Access::Write).unwrap();
            call(&space);
            assert!(!machine.has_cached(0, Vpn(BASE)), "the leaf is cached that is gone");
        }
        drop(running);
    }
    in_each!(4 * HUGE, Always, test);
}
