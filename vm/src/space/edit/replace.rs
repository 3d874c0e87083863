//! How a writer replaces mappings (protocols P2 and P3).
//!
//! ```text
//!   freeze the mappings it depends on ─► decide ─► prepare everything that can fail
//!                                                        │            \
//!                                                        ▼             refused: thaw, nothing has changed
//!   edit entries, flush ◄─ publish the new records ◄─ mark the old ones stale
//! ```
//!
//! A mapping's identity of private copies may still be given while a writer decides, by a fault that
//! speculates. So a mapping that has none is frozen before it is looked at: made *busy*, in which state it
//! gets none and faults fall back and wait. A writer that is refused makes it live again.

use super::mappings::Mappings;
use super::{RangeGuard, RangeToken};
use crate::index::IndexMemory;
use crate::machine::Machine;
use crate::space::Error;
use crate::space::vm::Reserve;
use crate::units::{Vpn, VpnRange};
use crate::vma::{Vma, VmaAttributes, VmaState};
use core::cell::Cell;

/// The most mappings that one decision depends on: a mapping and its two neighbours, or both ends of a range.
const FROZEN: usize = 4;

/// An edit of mappings that a writer prepares: mappings that it reads are frozen, and thawed when the edit is
/// dropped.
pub struct VmaEdit<'a, 'v, M: Machine> {
    mappings: &'a Mappings<'v, M>,
    token: RangeToken<'a>,
    /// Start pages of the mappings that it froze: the first `nr_frozen` of these.
    frozen: [Cell<Vpn>; FROZEN],
    nr_frozen: Cell<usize>,
    /// The mappings that it replaced.
    replaced: VpnRange,
}

impl<'a, 'v, M: Machine> VmaEdit<'a, 'v, M> {
    /// An edit that has read no mapping yet.
    #[inline]
    pub fn new(mappings: &'a Mappings<'v, M>, guard: &'a RangeGuard<'_, M>) -> Self {
        Self {
            mappings,
            token: guard.token(),
            frozen: [const { Cell::new(Vpn(0)) }; FROZEN],
            nr_frozen: Cell::new(0),
            replaced: VpnRange::default(),
        }
    }

    /// The pages that its caller holds.
    pub(super) fn token(&self) -> RangeToken<'a> {
        self.token
    }

    /// The mapping that holds `page`, as it stays until this edit is done.
    pub fn at(&self, page: Vpn) -> Option<VmaAttributes> {
        self.token.assert_may_read(self.mappings.id, VpnRange::new(page, page.add(1)));
        let reading = self.mappings.vm.rcu.read();
        Some(self.keep(self.mappings.vmas.find(&reading, page)?))
    }

    /// The mapping that ends where `page` begins.
    pub fn ending_at(&self, page: Vpn) -> Option<VmaAttributes> {
        self.at(Vpn(page.0.checked_sub(1)?))
    }

    /// The neighbours of `vma` that pages `part` of it may be merged with once they change: those that touch
    /// the part.
    pub fn neighbours(&self, vma: &VmaAttributes, part: VpnRange) -> [Option<VmaAttributes>; 2] {
        let prev = if part.start == vma.range.start { self.ending_at(part.start) } else { None };
        let next = if part.end == vma.range.end { self.at(part.end) } else { None };
        [prev, next]
    }

    /// The first mapping that holds a page of the range, which is not empty.
    #[inline(always)]
    pub fn first_in(&self, range: VpnRange) -> Option<VmaAttributes> {
        self.token.assert_may_read(self.mappings.id, range);
        let reading = self.mappings.vm.rcu.read();
        let vma = self.mappings.vmas.at_or_after(&reading, range.start)?;
        (vma.range().start < range.end).then(|| self.keep(vma))
    }

    /// The mapping's attributes, which stay the same until this edit is done.
    fn keep(&self, vma: &Vma<M::Cpu>) -> VmaAttributes {
        if vma.is_private() && vma.anon().is_none() && vma.freeze() {
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
    /// not mapped any more, or by other mappings: their former backings lose them.
    ///
    /// # Errors
    /// [`Error::NoMemory`]: nothing has changed.
    pub fn replace(
        self,
        old: VpnRange,
        new: &[Option<(VmaAttributes, VmaState)>],
        gone: VpnRange,
    ) -> Result<(), Error> {
        let memory = &self.mappings.records;
        self.replace_with(memory, old, new, gone)
    }

    /// As [`replace`](Self::replace), with memory from `memory`.
    pub fn replace_with<N: IndexMemory<Vma<M::Cpu>, M::Cpu>>(
        mut self,
        memory: &N,
        old: VpnRange,
        new: &[Option<(VmaAttributes, VmaState)>],
        gone: VpnRange,
    ) -> Result<(), Error> {
        let mut has_trimmed = false;
        while !self.try_replace(memory, old, new, gone) {
            // It may wait for readers: they wait neither for a frozen mapping nor for the space's lock.
            if has_trimmed || !self.mappings.vm.trim_for_lack() {
                return Err(Error::NoMemory);
            }
            has_trimmed = true;
        }
        self.replaced = old;
        Ok(())
    }

    /// Replaces the mappings; false, and nothing has changed, where that lacks memory.
    #[inline(always)]
    fn try_replace<N: IndexMemory<Vma<M::Cpu>, M::Cpu>>(
        &self,
        memory: &N,
        old: VpnRange,
        new: &[Option<(VmaAttributes, VmaState)>],
        gone: VpnRange,
    ) -> bool {
        let records = new.iter().flatten().map(|&(attributes, state)| Vma::new(attributes, state));
        let Ok(prepared) = self.mappings.vmas.prepare(old, records, memory) else { return false };
        prepared.publish_and(|vma| {
            self.token.assert_may_replace(|| vma.attributes(), new);
            self.mappings.note_leaving(vma, gone);
        });
        true
    }
}

impl<'v, M: Machine> Mappings<'v, M> {
    /// Memory for an edit of every mapping in the range, where that is more than one: it must not run out of
    /// memory after it has changed some.
    pub fn reserve_for(
        &self,
        token: RangeToken<'_>,
        range: VpnRange,
    ) -> Result<Option<Reserve<'_, 'v, M>>, Error> {
        match self.first_in(token, range) {
            Some(vma) if vma.range.end < range.end && !mutant!("protect.reserve-skipped") => {
                self.vm.reserve().map(Some).ok_or(Error::NoMemory)
            }
            _ => Ok(None),
        }
    }

    /// Makes the busy mapping at `page` live.
    pub fn make_live(&self, token: RangeToken<'_>, page: Vpn) {
        token.assert_covers(self.id, VpnRange::new(page, page.add(1)));
        let reading = self.vm.rcu.read();
        if let Some(vma) = self.vmas.find(&reading, page) {
            vma.make_live();
        }
    }
}

impl<M: Machine> Mappings<'_, M> {
    /// Makes the mapping at `page` live, if there is one that is busy. The caller is alone in the space.
    pub fn make_live_if_busy(&self, page: Vpn) {
        let reading = self.vm.rcu.read();
        if let Some(vma) = self.vmas.find(&reading, page).filter(|vma| vma.state() == VmaState::Busy) {
            vma.make_live();
        }
    }
}

impl<M: Machine> Drop for VmaEdit<'_, '_, M> {
    fn drop(&mut self) {
        // Replaced mappings are stale, and not thawed.
        let frozen = self.frozen[..self.nr_frozen.get()].iter().map(Cell::get);
        for start in frozen.filter(|&start| !self.replaced.contains(start)) {
            let reading = self.mappings.vm.rcu.read();
            if let Some(vma) = self.mappings.vmas.find(&reading, start) {
                vma.thaw();
            }
        }
    }
}
