//! Memory policies.

use crate::frame::FramePlacement;
use crate::units::{NodeId, NodeMask};
use crate::vma::Policy;

#[test]
fn interleaving_takes_the_nodes_in_turn_by_page() {
    let policy = Policy::interleave(0b1010_0001).unwrap();
    let at = |offset| policy.placement(offset);
    let preferred = |node| FramePlacement::Preferred(NodeId(node));
    assert_eq!([0, 1, 2, 3, 301].map(at), [0, 5, 7, 0, 5].map(preferred));
}

#[test]
fn a_policy_names_the_nodes_that_it_was_made_of() {
    assert_eq!(Policy::LOCAL.placement(7), FramePlacement::Local);
    assert_eq!(
        Policy::preferred(NodeId(28)).map(|p| p.placement(0)),
        Some(FramePlacement::Preferred(NodeId(28)))
    );
    let both = NodeMask::of(NodeId(0)).with(NodeMask::of(NodeId(3)));
    assert_eq!(Policy::bind(0b1001).map(|p| p.placement(1)), Some(FramePlacement::Bind(both)));
    assert_eq!([Policy::bind(0), Policy::interleave(1 << 29), Policy::preferred(NodeId(64))], [None; 3]);
    assert_ne!(Policy::bind(1), Policy::interleave(1));
}
