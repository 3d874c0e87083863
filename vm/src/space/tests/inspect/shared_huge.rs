//! What is resident of huge pages of shared memory.

use crate::machine::Format;
use crate::machine::testing::TestMachine;
use crate::space::Vm;
use crate::space::tests::world::PAGE;
use crate::space::tests::world::huge::{BASE, HUGE, at};
use crate::space::tests::world::shared_huge::{Space, in_each, recount, shared, shown};
use crate::units::Vpn;

#[test]
fn pages_that_are_dropped_are_resident_still_as_the_objects() {
    fn test<F: Format>(vm: &Vm<'_, TestMachine<F>>, space: Space<'_, F>) {
        let child = shared(&space);
        space.unmap(at(9), PAGE).unwrap();
        let mut resident = 0;
        space.mincore(at(0), 9 * PAGE, |_, is_there| resident += u64::from(is_there)).unwrap();
        assert_eq!(resident, 9);
        let (frame, of_object) = space.inspect().resident_frame(Vpn(BASE + 4)).unwrap();
        assert_eq!((Some(frame), of_object), (shown(&child, 4), true));
        assert_eq!(recount(vm, &[&space, &child]), 2 * HUGE);
    }
    in_each!(8 * HUGE, Always, test);
}
