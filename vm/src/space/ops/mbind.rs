//! mbind: which nodes the memory of a range comes from.

use crate::machine::Machine;
use crate::space::AddressSpace;
use crate::space::Error;
use crate::space::edit::VmaEdit;
use crate::units::{NodeId, VirtAddr, VpnRange};
use crate::vma::{Policy, change_policy};

impl<M: Machine> AddressSpace<'_, M> {
    /// Gives every page of the range the memory policy `policy`. It selects the nodes of pages that are made
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
        let guard = self.write(range);
        // Linux ignores holes where a policy is taken back.
        if !policy.is_local() && !self.is_all_mapped(guard.held(), range) {
            return Err(Error::Fault);
        }
        let reserve = match self.reserve_for(guard.held(), range)? {
            Some(_) if mutant!("mbind.reserve-skipped") => None,
            reserve => reserve,
        };
        let set = self.each_part_in(guard.held(), range, |part, _| {
            let edit = VmaEdit::new(self, &guard);
            let Some(vma) = edit.at(part.start) else { return Ok(()) };
            let [prev, next] = edit.neighbours(&vma, part);
            let decided = change_policy(prev, &vma, next, part, policy);
            self.apply_change(edit, &decided, [prev, Some(vma), next], reserve.as_ref())?;
            reserve.iter().for_each(|reserve| self.vm.top_up(reserve));
            Ok(())
        });
        set.map(|_all_mapped| ())
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
}
