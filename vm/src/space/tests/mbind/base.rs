//! mbind: where frames come from, what a policy does to mappings, and the errors of the call.

use crate::frame::{BootMap, Init, Region, RegionKind};
use crate::machine::testing::{TestFormat, TestMachine};
use crate::space::{AddressSpace, Error, Fault, FaultError, Layout, MapRequest, Misplaced, Path, Vm};
use crate::units::{Access, NodeId, PAGE_SIZE, VirtAddr};
use crate::vma::{Policy, PolicyFlags, PolicyMode, PolicyRequest, VmaAttributes, VmaFlags};
use std::vec::Vec;

type TestSpace<'v> = AddressSpace<'v, TestMachine>;

/// Two nodes of 1000 frames each.
fn map(machine: &TestMachine) -> BootMap {
    let region = |node: u32| Region {
        start: machine.frames().start.add(u64::from(node) * 1000).addr(),
        len_bytes: 1000 * PAGE_SIZE as u64,
        kind: RegionKind::Usable(Init::Dirty),
        node: NodeId(node),
    };
    BootMap::new(&[region(0), region(1)]).unwrap()
}

fn with_space(path: Path, test: impl FnOnce(&TestSpace<'_>)) {
    with_limited_space(path, 65_530, test);
}

fn with_limited_space(path: Path, max_mappings: usize, test: impl FnOnce(&TestSpace<'_>)) {
    let machine = TestMachine::new(2000);
    let vm = Vm::new(&machine, map(&machine)).unwrap();
    let layout = Layout { max_mappings, ..Layout::linux::<TestFormat>() };
    let space = AddressSpace::new(&vm, layout, path).unwrap();
    test(&space);
    drop(space);
    vm.trim();
    vm.memory().check().unwrap();
}

/// These nodes only.
const fn bind(nodes: u64) -> PolicyRequest {
    PolicyRequest::of(PolicyMode::Bind, nodes)
}

/// Sets a policy, whatever pages are present.
fn set(space: &TestSpace<'_>, addr: VirtAddr, len_bytes: u64, request: PolicyRequest) -> Result<(), Error> {
    space.set_policy(addr, len_bytes, request, Misplaced::Keep)
}

/// The policies of all mappings.
fn policies(space: &TestSpace<'_>) -> Vec<Policy> {
    let mut all = Vec::new();
    space.inspect().each_vma(|attributes: &VmaAttributes| all.push(attributes.policy));
    all
}

/// Writes `pages` pages from `base` on, and returns the node of each.
fn nodes(space: &TestSpace<'_>, base: VirtAddr, pages: u64) -> Vec<u32> {
    let node = |page| {
        let addr = VirtAddr(base.0 + page * PAGE_SIZE as u64);
        space.fault(Fault { addr, access: Access::Write }).unwrap();
        space.vm().memory().node_of(space.inspect().resident_frame(addr.vpn()).unwrap().0).0
    };
    (0..pages).map(node).collect()
}

#[test]
fn frames_come_from_the_nodes_of_the_policy_on_both_paths() {
    for path in Path::ALL {
        with_space(path, |space| {
            let len = 8 * PAGE_SIZE as u64;
            let cases = [
                (PolicyRequest::DEFAULT, [0; 8]),
                (PolicyRequest::LOCAL, [0; 8]),
                (PolicyRequest::of(PolicyMode::Preferred, 0b10), [1; 8]),
                (PolicyRequest::of(PolicyMode::PreferredMany, 0b10), [1; 8]),
                (bind(0b10), [1; 8]),
                (PolicyRequest { flags: PolicyFlags::RELATIVE, ..bind(0b1000) }, [1; 8]),
                (PolicyRequest::of(PolicyMode::Interleave, 0b11), [0, 1, 0, 1, 0, 1, 0, 1]),
                (PolicyRequest::of(PolicyMode::WeightedInterleave, !0), [0, 1, 0, 1, 0, 1, 0, 1]),
            ];
            for (policy, expected) in cases {
                let base = space.map(&MapRequest::anonymous(len)).unwrap();
                set(space, base, len, policy).unwrap();
                let mut found = nodes(space, base, 8);
                // Interleaving goes by the page's number, which need not be even at the start.
                if found[0] != expected[0] {
                    found.rotate_left(1);
                }
                assert_eq!(found, expected, "{policy:?}");
                space.unmap(base, len).unwrap();
            }
        });
    }
}

#[test]
fn a_bound_mapping_runs_out_of_memory_while_a_preferring_one_goes_elsewhere() {
    with_space(Path::Speculative, |space| {
        let len = 1500 * PAGE_SIZE as u64;
        let base = space.map(&MapRequest::anonymous(len)).unwrap();
        set(space, base, len, bind(0b10)).unwrap();
        let fault = |page: u64| {
            let addr = VirtAddr(base.0 + page * PAGE_SIZE as u64);
            space.fault(Fault { addr, access: Access::Write })
        };
        let bound = (0..1500).take_while(|&page| fault(page).is_ok()).count() as u64;
        assert!((900..1000).contains(&bound), "{bound} frames on a node of 1000");
        assert_eq!(fault(bound), Err(FaultError::NoMemory));
        set(space, base, len, PolicyRequest::of(PolicyMode::PreferredMany, 0b10)).unwrap();
        assert!((bound..1500).all(|page| fault(page).is_ok()));
    });
}

#[test]
fn a_policy_cuts_mappings_and_the_same_policy_joins_them_again() {
    with_space(Path::Speculative, |space| {
        let page = PAGE_SIZE as u64;
        let base = space.map(&MapRequest::anonymous(9 * page)).unwrap();
        let mappings = || {
            let mut all = Vec::new();
            space
                .inspect()
                .each_vma(|attributes: &VmaAttributes| all.push((attributes.range.len(), attributes.policy)));
            all
        };
        let bound = bind(1).resolve(space.vm().populated_nodes()).unwrap();
        let (none, local) = (Policy::DEFAULT, Policy::LOCAL);
        set(space, VirtAddr(base.0 + 3 * page), 3 * page, bind(1)).unwrap();
        assert_eq!(mappings(), [(3, none), (3, bound), (3, none)]);
        set(space, base, 3 * page, bind(0b101)).unwrap();
        assert_eq!(mappings(), [(6, bound), (3, none)]);
        set(space, base, 6 * page, PolicyRequest::LOCAL).unwrap();
        assert_eq!(mappings(), [(6, local), (3, none)], "the local policy is not the default");
        set(space, base, 9 * page, PolicyRequest::DEFAULT).unwrap();
        assert_eq!(mappings(), [(9, none)]);
    });
}

#[test]
fn holes_are_refused_unless_a_policy_is_taken_back() {
    with_space(Path::Speculative, |space| {
        let page = PAGE_SIZE as u64;
        let base = space.map(&MapRequest::anonymous(3 * page)).unwrap();
        let at = |nr: u64| VirtAddr(base.0 + nr * page);
        space.unmap(at(1), page).unwrap();
        let all = [bind(1), PolicyRequest::LOCAL, PolicyRequest::of(PolicyMode::Preferred, 0)];
        for request in all {
            for (from, pages) in [(0, 2), (0, 3), (1, 1), (1, 2), (2, 2)] {
                assert_eq!(set(space, at(from), pages * page, request), Err(Error::Fault), "{request:?}");
            }
        }
        assert!(policies(space).iter().all(|policy| policy.is_default()));
        set(space, base, 1, bind(1)).unwrap();
        assert_eq!(set(space, at(1), page, PolicyRequest::DEFAULT), Err(Error::Fault), "only a hole");
        assert_eq!(set(space, at(0), 9 * page, PolicyRequest::DEFAULT), Ok(()));
        assert!(policies(space).iter().all(|policy| policy.is_default()));
    });
}

#[test]
fn arguments_are_checked_in_linuxs_order() {
    with_space(Path::Speculative, |space| {
        let page = PAGE_SIZE as u64;
        let base = space.map(&MapRequest::anonymous(3 * page)).unwrap();
        let (absent, hole) = (bind(0b100), VirtAddr(base.0 - page));
        let (invalid, fault) = (Err(Error::Invalid), Err(Error::Fault));
        let unaligned = VirtAddr(base.0 + 1);
        let cases = [
            (unaligned, 0, bind(1), invalid),
            (unaligned, u64::MAX, bind(1), invalid),
            (base, u64::MAX, absent, Ok(())),
            (base, u64::MAX - 4094, absent, Ok(())),
            (base, u64::MAX - 4095, bind(1), invalid),
            (base, base.0.wrapping_neg(), PolicyRequest::DEFAULT, invalid),
            (VirtAddr(0), u64::MAX - 4095, PolicyRequest::DEFAULT, Ok(())),
            (VirtAddr(0), u64::MAX - 4095, bind(1), fault),
            (VirtAddr(!0xfff), page, bind(1), invalid),
            (VirtAddr(!0xfff), 0, bind(0), Ok(())),
            (VirtAddr(1 << 63), page, bind(1), fault),
            (base, 0, absent, Ok(())),
            (base, page, absent, invalid),
            (hole, page, absent, invalid),
            (hole, page, bind(1), fault),
            (base, page, PolicyRequest { nodes: 1, ..PolicyRequest::LOCAL }, invalid),
        ];
        for (addr, len, request, expected) in cases {
            assert_eq!(set(space, addr, len, request), expected, "{addr:?} {len:#x} {request:?}");
        }
    });
}

#[test]
fn pages_on_other_nodes_stay_and_can_be_refused_or_reported() {
    with_space(Path::Speculative, |space| {
        let page = PAGE_SIZE as u64;
        let base = space.map(&MapRequest::anonymous(4 * page)).unwrap();
        assert_eq!(nodes(space, base, 1), [0]);
        space.fault(Fault { addr: VirtAddr(base.0 + page), access: Access::Read }).unwrap();
        let call = |addr, pages, request, misplaced| space.set_policy(addr, pages * page, request, misplaced);
        let misplaced = Err(Error::Misplaced);
        for request in [bind(0b10), PolicyRequest::LOCAL] {
            assert_eq!(call(base, 4, request, Misplaced::Refuse), misplaced, "{request:?}");
            assert!(policies(space).iter().all(|policy| policy.is_default()));
            let zero_and_absent = VirtAddr(base.0 + page);
            assert_eq!(call(zero_and_absent, 3, request, Misplaced::Refuse), Ok(()), "{request:?}");
            call(base, 4, PolicyRequest::DEFAULT, Misplaced::Refuse).unwrap();
        }
        let hole = Err(Error::Fault);
        assert_eq!(call(base, 5, bind(0b10), Misplaced::Refuse), hole, "a hole comes before the pages");
        space.protect(VirtAddr(base.0 + 2 * page), 2 * page, VmaFlags::READ).unwrap();
        assert_eq!(call(base, 5, bind(0b10), Misplaced::Refuse), misplaced, "but not before earlier ones");
        space.protect(VirtAddr(base.0 + 2 * page), 2 * page, VmaFlags::READ | VmaFlags::WRITE).unwrap();
        assert_eq!(call(base, 4, bind(0b11), Misplaced::Refuse), Ok(()));
        assert_eq!(call(base, 4, PolicyRequest::LOCAL, Misplaced::Report), Ok(()));
        assert_eq!(call(base, 4, bind(0b10), Misplaced::Report), misplaced);
        assert_eq!(policies(space).len(), 1);
        assert!(policies(space)[0].nodes() == 0b10, "the policy is set all the same");
    });
}

/// Mapping by mapping: what has changed before too many would be needed stays, as in Linux.
#[test]
fn a_policy_for_which_there_may_not_be_mappings_enough_is_set_as_far_as_they_go() {
    for spare in 0..3 {
        let max_mappings = 3 + spare;
        with_limited_space(Path::Speculative, max_mappings, |space| {
            let page = PAGE_SIZE as u64;
            let base = space.map(&MapRequest::anonymous(9 * page)).unwrap();
            space.protect(VirtAddr(base.0 + 3 * page), 3 * page, VmaFlags::READ).unwrap();
            assert_eq!(policies(space).len(), 3);
            let result = set(space, VirtAddr(base.0 + page), 7 * page, bind(1));
            let bound = policies(space).iter().filter(|policy| !policy.is_default()).count();
            let (refused, len) = (Err(Error::NoMemory), policies(space).len());
            let expected = [(refused, 3, 0), (refused, 4, 2), (Ok(()), 5, 3)];
            assert_eq!((result, len, bound), expected[spare]);
        });
    }
}

/// A mapping that is joined on the way makes room for a split at the end.
#[test]
fn joined_mappings_make_room_for_a_split() {
    with_limited_space(Path::Speculative, 3, |space| {
        let page = PAGE_SIZE as u64;
        let base = space.map(&MapRequest::anonymous(9 * page)).unwrap();
        set(space, base, 3 * page, bind(1)).unwrap();
        set(space, VirtAddr(base.0 + 6 * page), 3 * page, PolicyRequest::LOCAL).unwrap();
        assert_eq!(policies(space).len(), 3);
        set(space, VirtAddr(base.0 + 3 * page), 5 * page, bind(1)).unwrap();
        assert_eq!(policies(space).len(), 2);
    });
}

/// Every allocation of the call fails in turn: it changes all mappings of the range or none.
#[test]
fn a_policy_for_several_mappings_is_refused_as_a_whole() {
    let mut refused = 0;
    for nth in 1..100 {
        with_space(Path::Speculative, |space| {
            let page = PAGE_SIZE as u64;
            let base = space.map(&MapRequest::anonymous(9 * page)).unwrap();
            space.protect(VirtAddr(base.0 + 3 * page), 3 * page, VmaFlags::READ).unwrap();
            let mappings = || {
                let mut all = Vec::new();
                space.inspect().each_vma(|attributes: &VmaAttributes| all.push(*attributes));
                all
            };
            let before = mappings();
            assert_eq!(before.len(), 3);
            let memory = space.vm().memory();
            memory.plan_mishap(nth);
            let (start, len) = (VirtAddr(base.0 + page), 7 * page);
            let result = set(space, start, len, bind(1));
            memory.plan_mishap(0);
            match result {
                Err(error) => {
                    assert_eq!((error, mappings()), (Error::NoMemory, before), "allocation {nth}");
                    refused += 1;
                }
                Ok(()) => assert_eq!(mappings().len(), 5),
            }
        });
    }
    assert!(refused > 0, "no allocation failed");
}
