//! Pins of huge pages of shared memory.

use crate::frame::Kind;
use crate::machine::Format;
use crate::machine::testing::{TestCpu, TestMachine};
use crate::space::tests::world::huge::{HUGE, at};
use crate::space::tests::world::shared_huge::{Space, in_each, is_base, is_huge, load, shared, shown};
use crate::space::{MemlockLimit, Vm};
use crate::table::FastPinRefusal;
use crate::units::Access;

#[test]
fn a_pin_is_of_a_base_page_and_outlives_its_object() {
    fn test<F: Format>(vm: &Vm<'_, TestMachine<F>>, space: Space<'_, F>) {
        let child = shared(&space);
        let limit = MemlockLimit::<TestCpu>::new(u64::MAX);
        let reading = vm.read();
        let fast = space.try_pin_fast(at(5), Access::Write, &limit, [None], &reading);
        assert_eq!(fast.map(drop), Err(FastPinRefusal::Huge));
        drop(reading);
        let pins = space.pin_pages(at(5), Access::Write, &limit, [None]).unwrap();
        let pinned = pins.frames().next().unwrap().pfn();
        assert_eq!(Some(pinned), shown(&child, 5));
        assert!(is_base(&space, 5) && is_huge(&child, 5));
        assert_eq!(space.copy_to(at(6), &[66]), Ok(1));
        assert_eq!(load(&child, 6), 66);
        let mut byte = [0];
        assert_eq!(child.copy_from(at(6), &mut byte), Ok(1));
        assert_eq!((byte, is_huge(&child, 6)), ([66], true), "a load by another process leaves it");
        drop((space, child));
        let meta = vm.memory().meta(pinned).unwrap();
        assert_eq!((meta.mapcount(), meta.state().refcount(), meta.pincount()), (0, 1, 1));
        let other = vm.memory().meta(pinned.add(1)).unwrap().state();
        assert_ne!(other.kind(), Kind::Object, "the other frames are free");
        drop(pins);
    }
    in_each!(8 * HUGE, Always, test);
}
