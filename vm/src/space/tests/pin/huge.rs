//! Pins of huge pages.

use crate::frame::PinnedFrame;
use crate::space::pin::PinUse;
use crate::space::tests::world::huge::{
    BASE, HUGE, THP, at, counted, filled, leaf, map, peek, store, with_space,
};
use crate::space::tests::world::pins::{Limit, slots};
use crate::space::tests::world::zero::{is_small_zero, load, with_zero};
use crate::table::FastPinRefusal;
use crate::units::{Access, Pfn, Vpn};

#[test]
fn a_pin_splits_and_the_page_keeps_its_frame() {
    with_space(|vm, space| {
        filled(&space);
        let limit = Limit::new(10);
        let before = space.inspect().resident_frame(Vpn(BASE + 9)).unwrap().0;
        let fast = |page| {
            let reading = vm.read();
            space.try_pin_fast(at(page), Access::Read, &limit, slots(1), &reading).err()
        };
        assert_eq!(fast(9), Some(FastPinRefusal::Huge));
        let pins = space.pin_pages(at(9), Access::Write, &limit, slots(2)).unwrap();
        let pfns: std::vec::Vec<Pfn> = pins.frames().map(PinnedFrame::pfn).collect();
        assert_eq!(pfns, [before, Pfn(before.0 + 1)]);
        assert_eq!((counted(vm, THP), fast(10)), ([2, 0, 1, 1], None));
        store(&space, 9, 77);
        assert_eq!(space.inspect().resident_frame(Vpn(BASE + 9)).unwrap().0, before);
        let child = space.fork().unwrap();
        assert_eq!((peek(&child, 9), peek(&child, 12)), (Some(77), Some(12)));
        assert_ne!(child.inspect().resident_frame(Vpn(BASE + 9)).unwrap().0, before, "pinned: copied");
        drop(pins);
    });
}

#[test]
fn a_pinned_page_is_memory_of_its_own() {
    with_zero(|vm, space| {
        map(&space, 0, HUGE);
        load(&space, 3);
        let pin = space.pins().pin_page(Vpn(BASE + 5), PinUse::Access(Access::Read)).unwrap();
        assert!(pin.pfn() != vm.memory().zero_frame() && !vm.memory().zero_pages().is_zero_page(pin.pfn()));
        assert!(is_small_zero(&space, 4) && leaf(&space, 5).unwrap().0.owned());
        drop(pin);
        let mut bytes = [1; 16];
        assert_eq!(space.copy_from(at(9), &mut bytes), Ok(16));
        assert_eq!(bytes, [0; 16]);
    });
}
