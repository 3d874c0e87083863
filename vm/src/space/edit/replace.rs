//! How a writer replaces mappings (protocols P2 and P3).
//!
//! ```text
//!   freeze what the decision rests on ─► decide ─► prepare everything that can fail
//!                                                        │            \
//!                                                        ▼             refused: thaw, nothing has changed
//!   edit entries, flush ◄─ publish the new records ◄─ mark the old ones stale
//! ```
//!
//! A mapping's identity of private copies may still be given while a writer decides, by a fault that
//! speculates. So a mapping that has none is frozen before it is looked at: made *busy*, in which state it
//! gets none and faults fall back and wait. A writer that is refused makes it live again.

use crate::index::IndexMemory;
use crate::machine::Machine;
use crate::space::Error;
use crate::space::{AddressSpace, WriteGuard};
use crate::units::{Vpn, VpnRange};
use crate::vma::{Vma, VmaAttributes, VmaState};
use core::cell::Cell;

/// The most mappings that one decision rests on: a mapping and its two neighbours, or both ends of a range.
const FROZEN: usize = 4;

/// A writer at work: it holds the space's lock alone, and thaws what it froze when it is dropped.
pub struct VmaEdit<'a, 'v, M: Machine> {
    space: &'a AddressSpace<'v, M>,
    /// Where the mappings begin that it froze; the first so many of these.
    frozen: [Cell<Vpn>; FROZEN],
    nr_frozen: Cell<usize>,
    /// What it replaced.
    replaced: VpnRange,
}

impl<'a, 'v, M: Machine> VmaEdit<'a, 'v, M> {
    /// A writer that has looked at nothing yet.
    pub fn new(space: &'a AddressSpace<'v, M>, _guard: &'a WriteGuard<'_, M>) -> Self {
        Self {
            space,
            frozen: [const { Cell::new(Vpn(0)) }; FROZEN],
            nr_frozen: Cell::new(0),
            replaced: VpnRange::default(),
        }
    }

    /// The mapping that holds `page`, as it stays until this edit is done.
    pub fn at(&self, page: Vpn) -> Option<VmaAttributes> {
        let reading = self.space.vm.rcu.read();
        Some(self.keep(self.space.vmas.find(&reading, page)?))
    }

    /// The mapping that ends where `page` begins.
    pub fn ending_at(&self, page: Vpn) -> Option<VmaAttributes> {
        self.at(Vpn(page.0.checked_sub(1)?))
    }

    /// The first mapping that holds a page of the range, which is not empty.
    pub fn first_in(&self, range: VpnRange) -> Option<VmaAttributes> {
        let reading = self.space.vm.rcu.read();
        let vma = self.space.vmas.at_or_after(&reading, range.start)?;
        (vma.range().start < range.end).then(|| self.keep(vma))
    }

    /// What the mapping says, and goes on saying until this edit is done.
    fn keep(&self, vma: &Vma<M::Cpu>) -> VmaAttributes {
        if vma.is_private_anonymous() && vma.anon().is_none() && vma.freeze() {
            self.note_frozen(vma.range().start);
        }
        // Read now: it may have got its identity just before it froze.
        vma.attributes()
    }

    fn note_frozen(&self, start: Vpn) {
        let nr = self.nr_frozen.get();
        self.frozen[nr].set(start);
        self.nr_frozen.set(nr + 1);
    }

    /// Replaces every mapping that holds a page of `old` by `new`, at one instant. The pages of `gone` are
    /// not mapped any more, or by other mappings: the backings that they showed lose them.
    ///
    /// # Errors
    /// [`Error::NoMemory`]: nothing has changed.
    pub fn replace(
        self,
        old: VpnRange,
        new: &[Option<(VmaAttributes, VmaState)>],
        gone: VpnRange,
    ) -> Result<(), Error> {
        let store = self.space.vm.index_store();
        self.replace_with(&store, old, new, gone)
    }

    /// As [`replace`](Self::replace), with memory from `memory`.
    pub fn replace_with<N: IndexMemory<Vma<M::Cpu>, M::Cpu>>(
        mut self,
        memory: &N,
        old: VpnRange,
        new: &[Option<(VmaAttributes, VmaState)>],
        gone: VpnRange,
    ) -> Result<(), Error> {
        let Ok(prepared) = self.space.vmas.prepare(old, new, memory) else { return Err(Error::NoMemory) };
        prepared.publish_and(|vma| self.space.release_backing(vma.backing(), gone.intersect(vma.range())));
        self.replaced = old;
        Ok(())
    }
}

impl<M: Machine> Drop for VmaEdit<'_, '_, M> {
    fn drop(&mut self) {
        // What was replaced is stale, and not thawed.
        let frozen = self.frozen[..self.nr_frozen.get()].iter().map(Cell::get);
        for start in frozen.filter(|&start| !self.replaced.contains(start)) {
            let reading = self.space.vm.rcu.read();
            if let Some(vma) = self.space.vmas.find(&reading, start) {
                vma.thaw();
            }
        }
    }
}
