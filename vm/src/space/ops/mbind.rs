//! mbind: which nodes the memory of a range comes from.
//!
//! ```text
//!   the policy on this machine ─► no holes, no page elsewhere ─► memory for all ─► change mapping by mapping
//!         Invalid                    Fault, Misplaced             NoMemory          too many: NoMemory
//! ```
//!
//! As in Linux the mappings before one that may not be split have changed then.

use crate::machine::{Entry, Machine};
use crate::space::edit::entries::Entries;
use crate::space::edit::{Mappings, VmaEdit};
use crate::space::{AddressSpace, Error, RangeToken};
use crate::table::{SlotRun, sweep};
use crate::units::{NodeMask, VirtAddr, Vpn, VpnRange};
use crate::vma::{Policy, PolicyRequest, VmaAttributes, change_policy};

/// How a call treats pages of its range that are present already and lie on other nodes. Pages are never
/// moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Misplaced {
    /// They stay.
    #[default]
    Keep,
    /// A page on a node that the request does not name refuses the call (MPOL_MF_STRICT).
    Refuse,
    /// They stay, and where there is one the call says so after it has set the policy (MPOL_MF_STRICT with
    /// MPOL_MF_MOVE).
    Report,
}

impl<M: Machine> AddressSpace<'_, M> {
    /// Gives every page of the range a memory policy. It selects the nodes of pages that are made present
    /// later; pages that are present stay where they are.
    ///
    /// # Errors
    /// In Linux's order: [`Error::Invalid`] for an unaligned start, a range that wraps, or a policy that
    /// [cannot be had](PolicyRequest::resolve) here; [`Error::Fault`] where a part is not mapped, or for the
    /// default policy where all of it is not; [`Error::Misplaced`]; [`Error::NoMemory`] for lack of memory.
    /// Nothing has changed then, but for [`Misplaced::Report`]. Last [`Error::NoMemory`] for too many
    /// mappings and [`Error::Invalid`] where the range cuts a page of the hugetlb pool: what has changed
    /// stays, as of [`protect`](Self::protect).
    pub fn set_policy(
        &self,
        addr: VirtAddr,
        len_bytes: u64,
        request: PolicyRequest,
        misplaced: Misplaced,
    ) -> Result<(), Error> {
        let Some(range) = range_of(addr, len_bytes)? else { return Ok(()) };
        SetPolicy { mappings: &self.mappings, entries: &self.entries }.run(range, request, misplaced)
    }
}

/// Giving the pages of a range a memory policy.
struct SetPolicy<'a, 'v, M: Machine> {
    mappings: &'a Mappings<'v, M>,
    entries: &'a Entries<'v, M>,
}

impl<M: Machine> SetPolicy<'_, '_, M> {
    fn run(self, range: VpnRange, request: PolicyRequest, misplaced: Misplaced) -> Result<(), Error> {
        let mappings = self.mappings;
        let populated = mappings.vm.populated_nodes();
        let policy = request.resolve(populated).ok_or(Error::Invalid)?;
        let guard = mappings.write(range);
        let is_refused =
            |part| misplaced == Misplaced::Refuse && self.is_misplaced(guard.token(), part, request.nodes);
        self.check_parts(guard.token(), range, policy, is_refused)?;
        let reserve = match mappings.reserve_for(guard.token(), range)? {
            Some(_) if mutant!("mbind.reserve-skipped") => None,
            reserve => reserve,
        };
        let set = mappings.each_part_in(guard.token(), range, |part, _| {
            let edit = VmaEdit::new(mappings, &guard);
            let Some(vma) = edit.at(part.start) else { return Ok(()) };
            let [prev, next] = edit.neighbours(&vma, part);
            let decided = change_policy(prev, &vma, next, part, policy);
            mappings.apply_change(edit, &decided, [prev, Some(vma), next], reserve.as_ref())?;
            reserve.iter().for_each(|reserve| mappings.vm.top_up(reserve));
            Ok(())
        });
        let _has_no_holes = set?;
        let nodes = policy.effective(populated);
        let is_reported =
            misplaced == Misplaced::Report && nodes != 0 && self.is_misplaced(guard.token(), range, nodes);
        if is_reported { Err(Error::Misplaced) } else { Ok(()) }
    }

    /// Whether the range is mapped as far as the policy demands, and no part of it is refused. Linux looks
    /// for a hole before and after a mapping, then at its pages, then at the next mapping.
    fn check_parts(
        &self,
        token: RangeToken<'_>,
        range: VpnRange,
        policy: Policy,
        is_refused: impl Fn(VpnRange) -> bool,
    ) -> Result<(), Error> {
        let may_have_holes = policy.is_default();
        let mut rest = range;
        while let Some(vma) = self.mappings.first_in(token, rest) {
            let part = rest.intersect(vma.range);
            let after = VpnRange::new(part.end, range.end);
            let ends_early = !after.is_empty() && self.at(token, after.start).is_none();
            let has_hole = part.start > rest.start || ends_early;
            if has_hole && !may_have_holes {
                return Err(Error::Fault);
            }
            if !may_have_holes && is_refused(part) {
                return Err(Error::Misplaced);
            }
            rest = after;
        }
        if rest == range { Err(Error::Fault) } else { Ok(()) }
    }

    fn at(&self, token: RangeToken<'_>, page: Vpn) -> Option<VmaAttributes> {
        self.mappings.first_in(token, VpnRange::new(page, page.add(1)))
    }

    /// Whether an entry of the range maps a frame of memory that is on none of the nodes.
    fn is_misplaced(&self, token: RangeToken<'_>, range: VpnRange, nodes: u64) -> bool {
        token.assert_covers(self.entries.id(), range);
        let (memory, nodes) = (self.entries.vm.memory(), NodeMask::from_bits(nodes));
        let mut found = false;
        sweep(&self.entries.table, range, |mut run: SlotRun<'_, '_, M>| {
            run.each_used(|table, slot, _| {
                if let Entry::Leaf(leaf) = table.entry(slot)
                    && leaf.owned()
                {
                    found |= !nodes.contains(memory.node_of(leaf.pfn));
                }
            });
        });
        found
    }
}

/// The pages of a call; `None` for none.
fn range_of(addr: VirtAddr, len_bytes: u64) -> Result<Option<VpnRange>, Error> {
    if !addr.is_page_aligned() {
        return Err(Error::Invalid);
    }
    // As in Linux a length that rounds up to 2^64 is no length.
    if len_bytes.checked_next_multiple_of(crate::units::PAGE_SIZE as u64).is_none() {
        return Ok(None);
    }
    let range = VpnRange::from_bytes(addr, len_bytes).ok_or(Error::Invalid)?;
    Ok(Some(range).filter(|range| !range.is_empty()))
}
