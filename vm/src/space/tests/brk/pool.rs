//! The heap and the hugetlb pool.

use crate::space::tests::world::PAGE;
use crate::space::tests::world::pool::{BYTES, with_pool};
use crate::space::{MapBacking, MapRequest, Place};
use crate::units::{PageSize, VirtAddr};

#[test]
fn the_heap_does_not_shrink_into_a_huge_page() {
    with_pool(1, |_, space| {
        let start = space.layout().heap_start;
        let end = VirtAddr(start.0 + 4 * BYTES);
        assert_eq!(space.brk(end), end);
        let page = VirtAddr((start.0 + BYTES).next_multiple_of(BYTES));
        let over = MapRequest { place: Place::Fixed(page), ..MapRequest::anonymous(BYTES) };
        space.map(&over.backed_by(MapBacking::Hugetlb(PageSize::Huge))).unwrap();
        assert_eq!(space.brk(VirtAddr(page.0 + PAGE)), end, "refused");
        assert_eq!(space.brk(page), page);
    });
}
