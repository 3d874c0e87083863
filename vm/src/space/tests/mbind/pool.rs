//! mbind and the hugetlb pool.

use crate::space::tests::world::pool::{BYTES, at, map, store, with_pool};
use crate::units::{NodeId, NodeMask};
use crate::vma::{PolicyMode, PolicyRequest};

#[test]
fn a_policy_says_where_pages_come_from() {
    with_pool(2, |_, space| {
        map(&space, 0, 2);
        let nodes = NodeMask::of(NodeId(0)).bits();
        let request = PolicyRequest { mode: PolicyMode::Bind, flags: Default::default(), nodes };
        space.set_policy(at(0), BYTES, request, Default::default()).unwrap();
        (0..2).for_each(|page| store(&space, page, 3));
        assert_eq!(space.inspect().nr_mappings(), 2);
    });
}
