//! A leaf of an object's folio that is cleared is told whole.

use crate::machine::Format;
use crate::machine::testing::TestMachine;
use crate::space::Vm;
use crate::space::tests::world::PAGE;
use crate::space::tests::world::huge::{HUGE, at};
use crate::space::tests::world::shared_huge::{Space, in_each, is_huge, map, store};
use crate::space::tests::world::{check_copies, copy_translations};
use crate::units::VpnRange;
use crate::vma::VmaFlags;

#[test]
fn what_clears_the_leaf_of_an_objects_folio_tells_each_of_its_pages() {
    fn test<F: Format>(_: &Vm<'_, TestMachine<F>>, space: Space<'_, F>) {
        map(&space, 0, HUGE);
        store(&space, 0, 1);
        let copy = || copy_translations(&space, VpnRange::new(at(0).vpn(), at(HUGE).vpn()));
        copy();
        assert_eq!((is_huge(&space, 0), check_copies(&space)), (true, 3));
        space.protect(at(10), 20 * PAGE, VmaFlags::READ).unwrap();
        assert_eq!(check_copies(&space), 0);
        store(&space, 0, 2);
        copy();
        space.unmap(at(0), PAGE).unwrap();
        assert_eq!(check_copies(&space), 0);
    }
    in_each!(8 * HUGE, Always, test);
}
