//! The heap with huge pages.

use crate::space::Fault;
use crate::space::tests::world::huge::{HUGE, with_space};
use crate::units::{Access, Vpn};

#[test]
fn the_heap_shrinks_through_a_huge_page() {
    with_space(|_, space| {
        let start = space.layout().heap_start;
        let first = start.vpn().0.next_multiple_of(HUGE);
        let end = Vpn(first + HUGE).addr();
        assert_eq!(space.brk(end), end);
        space.fault(Fault { addr: Vpn(first).addr(), access: Access::Write }).unwrap();
        let is_resident = |page| space.inspect().resident_frame(Vpn(first + page)).is_some();
        assert!(is_resident(HUGE - 1));
        let lower = Vpn(first + 5).addr();
        assert_eq!(space.brk(lower), lower);
        assert!(is_resident(4) && !is_resident(5));
    });
}
