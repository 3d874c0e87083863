//! Memory policies of mappings: where frames come from, and how mappings are split and joined.

use crate::frame::{BootMap, Init, Region, RegionKind};
use crate::machine::testing::{TestFormat, TestMachine};
use crate::space::{AddressSpace, Error, Fault, FaultError, Layout, MapRequest, Path, Vm};
use crate::units::{Access, NodeId, PAGE_SIZE, VirtAddr};
use crate::vma::{Policy, VmaAttributes, VmaFlags};
use std::vec::Vec;

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

fn with_space(path: Path, test: impl FnOnce(&AddressSpace<'_, TestMachine>)) {
    let machine = TestMachine::new(2000);
    let vm = Vm::new(&machine, map(&machine)).unwrap();
    let space = AddressSpace::new(&vm, Layout::linux::<TestFormat>(), path).unwrap();
    test(&space);
    drop(space);
    vm.trim();
    vm.memory().check().unwrap();
}

/// Writes `pages` pages from `base` on, and returns the node of each.
fn nodes(space: &AddressSpace<'_, TestMachine>, base: VirtAddr, pages: u64) -> Vec<u32> {
    let node = |page| {
        let addr = VirtAddr(base.0 + page * PAGE_SIZE as u64);
        space.fault(Fault { addr, access: Access::Write }).unwrap();
        space.vm().memory().node_of(space.resident_frame(addr.vpn()).unwrap().0).0
    };
    (0..pages).map(node).collect()
}

#[test]
fn frames_come_from_the_nodes_of_the_policy_on_both_paths() {
    for path in [Path::Speculative, Path::Locked] {
        with_space(path, |space| {
            let len = 8 * PAGE_SIZE as u64;
            let cases = [
                (Policy::LOCAL, [0; 8]),
                (Policy::preferred(NodeId(1)).unwrap(), [1; 8]),
                (Policy::bind(0b10).unwrap(), [1; 8]),
                (Policy::interleave(0b11).unwrap(), [0, 1, 0, 1, 0, 1, 0, 1]),
            ];
            for (policy, expected) in cases {
                let base = space.map(&MapRequest::anonymous(len)).unwrap();
                space.set_policy(base, len, policy).unwrap();
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
        space.set_policy(base, len, Policy::bind(0b10).unwrap()).unwrap();
        let fault = |page: u64| {
            let addr = VirtAddr(base.0 + page * PAGE_SIZE as u64);
            space.fault(Fault { addr, access: Access::Write })
        };
        let bound = (0..1500).take_while(|&page| fault(page).is_ok()).count() as u64;
        assert!((900..1000).contains(&bound), "{bound} frames on a node of 1000");
        assert_eq!(fault(bound), Err(FaultError::NoMemory));
        space.set_policy(base, len, Policy::preferred(NodeId(1)).unwrap()).unwrap();
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
                .each_vma(|attributes: &VmaAttributes| all.push((attributes.range.len(), attributes.policy)));
            all
        };
        let (none, bind) = (Policy::LOCAL, Policy::bind(1).unwrap());
        space.set_policy(VirtAddr(base.0 + 3 * page), 3 * page, bind).unwrap();
        assert_eq!(mappings(), [(3, none), (3, bind), (3, none)]);
        space.set_policy(base, 3 * page, bind).unwrap();
        assert_eq!(mappings(), [(6, bind), (3, none)]);
        space.set_policy(base, 9 * page, none).unwrap();
        assert_eq!(mappings(), [(9, none)]);
    });
}

#[test]
fn holes_are_refused_unless_a_policy_is_taken_back() {
    with_space(Path::Speculative, |space| {
        let page = PAGE_SIZE as u64;
        let base = space.map(&MapRequest::anonymous(3 * page)).unwrap();
        space.unmap(VirtAddr(base.0 + page), page).unwrap();
        let set = |policy| space.set_policy(base, 3 * page, policy);
        assert_eq!(set(Policy::bind(1).unwrap()), Err(Error::Fault));
        assert_eq!(set(Policy::LOCAL), Ok(()));
        assert_eq!(space.set_policy(VirtAddr(base.0 + 1), page, Policy::LOCAL), Err(Error::Invalid));
        assert_eq!(space.set_policy(base, page, Policy::bind(0b100).unwrap()), Err(Error::Invalid));
        assert_eq!(space.set_policy(base, 0, Policy::bind(1).unwrap()), Ok(()));
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
                space.each_vma(|attributes: &VmaAttributes| all.push(*attributes));
                all
            };
            let before = mappings();
            assert_eq!(before.len(), 3);
            let memory = space.vm().memory();
            memory.plan_mishap(nth);
            let (start, len) = (VirtAddr(base.0 + page), 7 * page);
            let result = space.set_policy(start, len, Policy::bind(1).unwrap());
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
