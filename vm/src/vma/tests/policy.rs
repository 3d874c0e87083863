//! Memory policies.

use crate::frame::FramePlacement;
use crate::units::{NodeId, NodeMask};
use crate::vma::{Policy, PolicyFlags, PolicyMode, PolicyRequest};

const MODES: [PolicyMode; 7] = [
    PolicyMode::Default,
    PolicyMode::Preferred,
    PolicyMode::Bind,
    PolicyMode::Interleave,
    PolicyMode::Local,
    PolicyMode::PreferredMany,
    PolicyMode::WeightedInterleave,
];

/// A machine with memory on nodes 0, 2 and 5.
const POPULATED: NodeMask = NodeMask::from_bits(0b10_0101);

fn resolve(mode: PolicyMode, nodes: u64) -> Option<Policy> {
    PolicyRequest::of(mode, nodes).resolve(POPULATED)
}

fn flagged(mode: PolicyMode, flags: PolicyFlags, nodes: u64) -> Option<Policy> {
    PolicyRequest { mode, flags, nodes }.resolve(POPULATED)
}

#[test]
fn interleaving_takes_the_nodes_in_turn_by_page() {
    for mode in [PolicyMode::Interleave, PolicyMode::WeightedInterleave] {
        let policy = resolve(mode, u64::MAX).unwrap();
        let at = |offset| policy.placement(offset, POPULATED);
        let preferred = |node| FramePlacement::Preferred(NodeId(node));
        assert_eq!([0, 1, 2, 3, 301, u64::MAX].map(at), [0, 2, 5, 0, 2, 0].map(preferred));
    }
}

#[test]
fn each_mode_places_frames_on_the_nodes_that_have_memory() {
    let nodes = 0b110_0110;
    let with_memory = NodeMask::from_bits(0b10_0100);
    let placed = |mode| resolve(mode, nodes).unwrap().placement(0, POPULATED);
    assert_eq!(placed(PolicyMode::Preferred), FramePlacement::Preferred(NodeId(2)));
    assert_eq!(placed(PolicyMode::Bind), FramePlacement::Bind(with_memory));
    assert_eq!(placed(PolicyMode::PreferredMany), FramePlacement::PreferredMany(with_memory));
    let near = [Policy::DEFAULT, Policy::LOCAL].map(|policy| policy.placement(7, POPULATED));
    assert_eq!(near, [FramePlacement::Local; 2]);
}

#[test]
fn nodes_must_fit_the_mode() {
    for mode in MODES {
        let needs_none = matches!(mode, PolicyMode::Default | PolicyMode::Local);
        let takes_none = needs_none || mode == PolicyMode::Preferred;
        assert_eq!(resolve(mode, 0).is_some(), takes_none, "{mode:?} without nodes");
        assert_eq!(resolve(mode, 1).is_some(), !needs_none, "{mode:?} with a node");
        assert_eq!(resolve(mode, 1 << 63 | 1).is_some(), !needs_none, "{mode:?} with an absent node");
        assert_eq!(resolve(mode, 1 << 63), None, "{mode:?} with absent nodes only");
    }
    assert_eq!(resolve(PolicyMode::Preferred, 0), Some(Policy::LOCAL));
    assert_ne!(Policy::LOCAL, Policy::DEFAULT);
}

#[test]
fn policies_are_the_same_if_mode_flags_and_nodes_with_memory_are() {
    assert_eq!(resolve(PolicyMode::Bind, 0b11), resolve(PolicyMode::Bind, 0b1));
    assert_eq!(resolve(PolicyMode::Preferred, 0b11_1111), resolve(PolicyMode::Preferred, 1));
    assert_ne!(resolve(PolicyMode::Bind, 1), resolve(PolicyMode::Interleave, 1));
    let kept = |nodes| flagged(PolicyMode::Bind, PolicyFlags::STATIC, nodes).unwrap();
    assert_ne!(kept(0b11), kept(0b1));
    assert_ne!(Some(kept(1)), resolve(PolicyMode::Bind, 1));
    assert_eq!(kept(0b11).placement(0, POPULATED), FramePlacement::Bind(NodeMask::from_bits(1)));
}

#[test]
fn relative_nodes_count_those_with_memory_round() {
    let relative = |nodes| flagged(PolicyMode::Bind, PolicyFlags::RELATIVE, nodes).unwrap();
    let placed = |nodes| relative(nodes).placement(0, POPULATED);
    assert_eq!(placed(0b10), FramePlacement::Bind(NodeMask::from_bits(1 << 2)));
    assert_eq!(placed(0b10_1000), FramePlacement::Bind(NodeMask::from_bits(0b10_0001)));
    assert_ne!(relative(1), relative(8));
}

#[test]
fn flags_that_contradict_each_other_or_the_mode_are_refused() {
    let (both, balancing) = (PolicyFlags::STATIC | PolicyFlags::RELATIVE, PolicyFlags::BALANCING);
    for mode in MODES {
        let nodes = u64::from(!matches!(mode, PolicyMode::Default | PolicyMode::Local));
        assert_eq!(flagged(mode, both, nodes), None);
        let balances = matches!(mode, PolicyMode::Bind | PolicyMode::PreferredMany);
        assert_eq!(flagged(mode, balancing, nodes).is_some(), balances);
        for flag in [PolicyFlags::STATIC, PolicyFlags::RELATIVE] {
            assert_eq!(flagged(mode, flag, nodes).is_some(), mode != PolicyMode::Local, "{mode:?} {flag:?}");
        }
    }
    assert_eq!(flagged(PolicyMode::Preferred, PolicyFlags::STATIC, 0), None);
    assert_eq!(flagged(PolicyMode::Default, PolicyFlags::STATIC, 0), Some(Policy::DEFAULT));
    assert_eq!(flagged(PolicyMode::Bind, PolicyFlags::RELATIVE, 1 << 26), None, "a node that has no bit");
}
