//! mbind of huge pages.

use crate::space::tests::world::PAGE;
use crate::space::tests::world::huge::{HUGE, at, is_huge, map, store, with_space};

#[test]
fn a_huge_page_lies_on_the_nodes_of_its_policy() {
    use crate::vma::{PolicyMode, PolicyRequest};
    with_space(|_, space| {
        map(&space, 0, 2 * HUGE);
        let request = PolicyRequest::of(PolicyMode::Bind, 1);
        space.set_policy(at(0), HUGE * PAGE, request, crate::space::Misplaced::Keep).unwrap();
        store(&space, 9, 1);
        assert!(is_huge(&space, 9));
    });
}
