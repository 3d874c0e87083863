//! What a fork does with a leaf above the last level: a huge page, the huge zero page, a hugetlb page.
//!
//! | leaf | child gets | parent |
//! |---|---|---|
//! | anonymous memory | one mapping more of the folio | loses the right to write |
//! | the same, referenced, hugetlb | a copy, after the flush | the same |
//! | the same, referenced | the leaf is split, and base pages are shared | the same |
//! | zeros | the same leaf | |
//! | a marker of which a child gets the same | the same marker | |

use super::fork::Fork;
use crate::frame::NotMappedAgain;
use crate::machine::{Entry, Machine};
use crate::space::edit::Mappings;
use crate::space::edit::entries::Entries;
use crate::space::fork_cursor::ForkUnderWay;
use crate::space::retry::PageRetry;
use crate::space::{Counter, Error};
use crate::sync::{NoProgress, Progress};
use crate::table::{AtFork, AtPin, DupLeaf, LeafBits, LeafClass, LockedTable, SlotMarker, ZeroLeaf};
use crate::table::{OnFork, walk};
use crate::units::{Level, Order, PageSize, Vpn, VpnRange};
use crate::vma::pages_of;

/// What the child gets of an entry.
enum ChildEntry<'m, M: Machine> {
    /// Nothing: the entry has no memory.
    Nothing,
    /// Nothing: the child's faults find what the leaf maps.
    Skipped,
    /// The marker, which is here too.
    Marker(SlotMarker),
    /// Zeros.
    Zero(ZeroLeaf, LeafBits),
    /// A mapping of the same folio.
    Dup(DupLeaf<'m, M, Order>, LeafClass),
    /// A copy, once the fork has flushed; and whether the parent's leaf allowed stores.
    Copied { was_writable: bool },
}

impl<M: Machine> ChildEntry<'_, M> {
    /// Whether the parent's leaf allowed stores.
    fn was_writable(&self) -> bool {
        match self {
            Self::Dup(dup, _) => dup.was_writable,
            Self::Copied { was_writable } => *was_writable,
            _ => false,
        }
    }
}

/// Whether a child gets leaves of the pool in shared mappings, which is a fault.
pub(super) fn copies_shared_hugetlb() -> bool {
    mutant!("pool.shared-copied")
}

/// Takes from an entry what the child gets; `None` where its leaf is to be split first.
///
/// # Errors
/// [`Error::NoMemory`]: it is mapped too often.
fn dup_entry<'t, M: Machine>(
    table: &mut LockedTable<'t, M>,
    slot: usize,
) -> Result<Option<ChildEntry<'t, M>>, Error> {
    if let Some(marker) = table.marker(slot).filter(|marker| marker.on_fork() == OnFork::Copy) {
        return Ok(Some(ChildEntry::Marker(marker)));
    }
    let (Some((leaf, class)), Some(size)) = (table.leaf(slot), table.level().leaf_size()) else {
        return Ok(Some(ChildEntry::Nothing));
    };
    match class.at_fork() {
        AtFork::Skip if copies_shared_hugetlb() && class.at_pin() == AtPin::InPart => {
            Ok(Some(ChildEntry::Copied { was_writable: table.take_write(slot) }))
        }
        AtFork::Skip => Ok(Some(ChildEntry::Skipped)),
        AtFork::Copy => Ok(Some(ChildEntry::Zero(ZeroLeaf::of(leaf, table.level()), LeafBits::of(leaf)))),
        AtFork::Dup => match table.dup(slot, size.order()) {
            Ok(Some(dup)) => Ok(Some(ChildEntry::Dup(dup, class))),
            // Pinned, perhaps.
            Ok(None) | Err(NotMappedAgain::Referenced) if class.at_pin() == AtPin::InPart => {
                Ok(Some(ChildEntry::Copied { was_writable: table.take_write(slot) }))
            }
            Ok(None) | Err(NotMappedAgain::Referenced) => Ok(None),
            Err(NotMappedAgain::OfObject) => Ok(Some(ChildEntry::Skipped)),
            Err(NotMappedAgain::TooManyMappings) => Err(Error::NoMemory),
        },
    }
}

impl<M: Machine> Fork<'_, '_, '_, M> {
    /// Shares the leaf above the last level that maps the first page of `range` with the child, if there is
    /// one and it lies in the range, which is of a mapping with pages of `size`. Returns where its pages end,
    /// and how many have frames; `None` where base pages are to be shared, if there are any.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    #[cold]
    #[inline(never)]
    pub(super) fn leaf(&mut self, range: VpnRange, size: PageSize) -> Result<Option<(Vpn, u64)>, Error> {
        let leaf = size.max(PageSize::Huge);
        let pages = pages_of(leaf.order(), range.start);
        if !range.covers(pages) {
            return Ok(None);
        }
        let duplicate =
            DupEntry { mappings: &self.parent.mappings, entries: &self.parent.entries, cursor: self.cursor };
        let Some(child_entry) = duplicate.run(pages, leaf.level())? else { return Ok(None) };
        // A sweep goes on from an empty entry as far as there is nothing.
        if matches!(child_entry, ChildEntry::Nothing) && size == PageSize::Base {
            return Ok(None);
        }
        // Noted before anything fails: the parent's leaf has lost the right.
        if child_entry.was_writable() && !mutant!("fork.leaf-flush-skipped") {
            self.gather.need_flush_of_leaf(pages);
        }
        if let ChildEntry::Copied { .. } = child_entry {
            self.note_copied(pages);
        }
        let nr_frames = self.child.entries.receive(child_entry, pages, leaf)?;
        Ok(Some((pages.end, nr_frames)))
    }
}

/// Taking from an entry of the parent what the child gets.
struct DupEntry<'a, 'v, M: Machine> {
    mappings: &'a Mappings<'v, M>,
    entries: &'a Entries<'v, M>,
    cursor: &'a ForkUnderWay<'a, M::Cpu>,
}

impl<'a, M: Machine> DupEntry<'a, '_, M> {
    /// Takes from the entry of `pages`, of a table of `level`, what the child gets, and passes it with the
    /// cursor, under one lock of the table. `None` where base pages are to be shared.
    ///
    /// # Errors
    /// [`Error::NoMemory`]: it is mapped too often, or its table is detached for good.
    fn run(&self, pages: VpnRange, level: Level) -> Result<Option<ChildEntry<'a, M>>, Error> {
        let Self { mappings, entries, cursor } = *self;
        let mut retry = PageRetry::new("fork.leaf");
        loop {
            let reading = entries.vm.rcu.read();
            let found = walk(&entries.table, pages.start, level, &reading);
            let (slot, is_there, locked) = (found.slot, found.table.level() == level, found.table.lock());
            drop(reading);
            // Else it was detached since the walk.
            if let Some(mut table) = locked
                && !retry.is_withheld()
            {
                if is_there && matches!(table.entry(slot), Entry::Table(_)) {
                    return Ok(None);
                }
                let child_entry =
                    if is_there { dup_entry(&mut table, slot)? } else { Some(ChildEntry::Nothing) };
                if child_entry.is_some() && !mutant!("fork.leaf-cursor-not-advanced") {
                    cursor.advance(pages.end);
                }
                return Ok(child_entry);
            }
            let again = retry.again_at((entries, &mappings.vmas), pages.start, Progress::None);
            again.map_err(|NoProgress| Error::NoMemory)?;
        }
    }
}

impl<M: Machine> Entries<'_, M> {
    /// Maps in a space that only the caller knows what a fork gives it of an entry. Returns how many
    /// pages have frames. What is dropped where there is no memory for a table no CPU has used.
    fn receive(&self, child_entry: ChildEntry<'_, M>, pages: VpnRange, size: PageSize) -> Result<u64, Error> {
        let fill = |install: &mut dyn FnMut(&mut LockedTable<'_, M>, usize)| {
            self.fill_above(pages.start, size.level(), |above, slot| {
                install(above, slot);
                Ok(())
            })
        };
        match child_entry {
            ChildEntry::Nothing | ChildEntry::Skipped => Ok(0),
            ChildEntry::Marker(marker) => {
                fill(&mut |above, slot| above.mark_absent(slot, marker)).map(|()| 0)
            }
            ChildEntry::Copied { .. } => {
                fill(&mut |above, slot| above.mark_absent(slot, SlotMarker::Busy)).map(|()| 0)
            }
            ChildEntry::Zero(zero, bits) => {
                self.table.dup_huge_zero(zero).map_err(|_| Error::NoMemory)?;
                fill(&mut |above, slot| above.install(slot, zero, bits)).map(|()| 0)
            }
            ChildEntry::Dup(dup, class) => {
                self.note_huge_leaves();
                let mut dup = Some(dup);
                fill(&mut |above, slot| {
                    dup.take().into_iter().for_each(|dup| above.install_dup(slot, dup));
                })?;
                if let Some(counter) = Counter::of_leaves(class, size.order()) {
                    self.vm.count(counter);
                }
                Ok(pages.len())
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
#[path = "../tests/fork/leaf.rs"]
mod tests;
