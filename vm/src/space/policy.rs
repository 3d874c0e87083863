//! mbind: which nodes the memory of a range comes from.

use super::AddressSpace;
use super::edit::Editor;
use super::error::Error;
use crate::machine::Machine;
use crate::units::{NodeId, VirtAddr, VpnRange};
use crate::vma::{Policy, change_policy};

impl<M: Machine> AddressSpace<'_, M> {
    /// Gives every page of the range the memory policy `policy`. It says where frames come from that are made
    /// present later; pages that are present stay where they are.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an unaligned start, a range that wraps, or a policy none of whose nodes has
    /// memory; [`Error::Fault`] where a part is not mapped, and then nothing has changed; [`Error::NoMemory`]
    /// for lack of memory or too many mappings.
    pub fn set_policy(&self, addr: VirtAddr, len_bytes: u64, policy: Policy) -> Result<(), Error> {
        let range = VpnRange::from_bytes(addr, len_bytes).ok_or(Error::Invalid)?;
        if range.is_empty() {
            return if len_bytes == 0 { Ok(()) } else { Err(Error::Invalid) };
        }
        if !policy.is_local() && !self.is_any_populated(policy) {
            return Err(Error::Invalid);
        }
        let alone = self.lock.0.lock();
        // Linux forgives holes to who takes a policy back.
        if !policy.is_local() && !self.is_all_mapped(range) {
            return Err(Error::Fault);
        }
        let reserve = self.reserve_for(range)?;
        let mut rest = range;
        while let Some(vma) = self.first_in(rest) {
            let part = rest.intersect(vma.range);
            let editor = Editor::new(self, &alone);
            let (prev, next) = (editor.ending_at(vma.range.start), editor.at(vma.range.end));
            let decided = change_policy(prev, &vma, next, part, policy);
            self.apply(editor, &decided, [prev, Some(vma), next], reserve.as_ref())?;
            reserve.iter().for_each(|reserve| self.vm.top_up(reserve));
            rest = VpnRange::new(part.end, range.end);
        }
        Ok(())
    }

    fn is_any_populated(&self, policy: Policy) -> bool {
        let named = |node: &NodeId| policy.nodes() >> node.0 & 1 == 1;
        let zones = self.vm.memory().zones();
        zones
            .iter()
            .map(|zone| zone.node())
            .filter(|node| node.0 < Policy::MAX_NODES)
            .any(|node| named(&node))
    }

    fn is_all_mapped(&self, range: VpnRange) -> bool {
        let mut rest = range;
        while let Some(vma) = self.first_in(rest) {
            if vma.range.start > rest.start {
                return false;
            }
            rest = VpnRange::new(rest.intersect(vma.range).end, range.end);
        }
        rest.is_empty()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::frame::{BootMap, Init, Region, Use};
    use crate::machine::testing::{TestFormat, TestMachine};
    use crate::space::{Fault, FaultError, Layout, MapRequest, Path, Vm};
    use crate::units::{Access, PAGE_SIZE};
    use crate::vma::VmaSpec;
    use std::vec::Vec;

    /// Two nodes of 1000 frames each.
    fn map(machine: &TestMachine) -> BootMap {
        let region = |node: u32| Region {
            start: machine.frames().start.add(u64::from(node) * 1000).addr(),
            len_bytes: 1000 * PAGE_SIZE as u64,
            purpose: Use::Usable(Init::Dirty),
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

    /// Writes `pages` pages from `base` on, and says which node each is on.
    fn nodes(space: &AddressSpace<'_, TestMachine>, base: VirtAddr, pages: u64) -> Vec<u32> {
        let node = |page| {
            let addr = VirtAddr(base.0 + page * PAGE_SIZE as u64);
            space.fault(Fault { addr, access: Access::Write }).unwrap();
            space.vm().memory().node_of(space.resident_frame(addr.vpn()).unwrap().0).0
        };
        (0..pages).map(node).collect()
    }

    #[test]
    fn frames_come_from_where_the_policy_says_on_both_paths() {
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
                space.each_vma(|spec: &VmaSpec| all.push((spec.range.len(), spec.policy)));
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
}
