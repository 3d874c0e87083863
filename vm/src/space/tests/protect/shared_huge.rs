//! mprotect of huge pages of shared memory.

use crate::machine::Format;
use crate::machine::testing::TestMachine;
use crate::space::tests::world::PAGE;
use crate::space::tests::world::huge::{HUGE, at};
use crate::space::tests::world::shared_huge::{RW, Space, in_each, is_huge, load, recount, shared, store};
use crate::space::{Fault, Vm};
use crate::units::Access;
use crate::vma::VmaFlags;

#[test]
fn mprotect_of_a_part_takes_no_right_from_other_pages_and_gives_none_to_its_own() {
    fn test<F: Format>(vm: &Vm<'_, TestMachine<F>>, space: Space<'_, F>) {
        let child = shared(&space);
        space.protect(at(10), 20 * PAGE, VmaFlags::READ).unwrap();
        store(&space, 9, 1);
        store(&space, 30, 2);
        assert_eq!((load(&space, 10), load(&child, 9), load(&child, 30)), (10, 1, 2));
        assert!(space.fault(Fault { addr: at(10), access: Access::Write }).is_err());
        // Of a whole one the leaf stays, with fewer rights, and gets them back.
        space.protect(at(HUGE), HUGE * PAGE, VmaFlags::READ).unwrap();
        assert!(is_huge(&space, HUGE));
        assert!(space.fault(Fault { addr: at(HUGE), access: Access::Write }).is_err());
        space.protect(at(HUGE), HUGE * PAGE, RW).unwrap();
        store(&space, HUGE + 1, 3);
        assert!(is_huge(&space, HUGE));
        assert_eq!((load(&child, HUGE + 1), recount(vm, &[&space, &child])), (3, 2 * HUGE));
    }
    in_each!(8 * HUGE, Always, test);
}
