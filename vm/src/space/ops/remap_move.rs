//! A mapping, or a part of one, that gets another address.
//!
//! ```text
//!   live ─► busy ─► memory for all of it ─► publish the new one, busy ─► publish what remains of the old one
//!                        may fail: undone       ─► move entries, a flush for each table ─► live
//! ```
//!
//! The caller is alone in the space. docs/design/mremap.md has what is beside it, and why that holds.

use crate::frame::Priority;
use crate::machine::Machine;
use crate::space::edit::entries::Entries;
use crate::space::edit::{Mappings, Split, VmaEdit, Zap};
use crate::space::vm::Reserve;
use crate::space::{Counter, Error, RangeGuard, RangeToken};
use crate::table::{
    FirstEntries, LeafClass, UnlinkedTable, first_entries, link_tables, put_above, put_all, take_above,
    take_all,
};
use crate::tlb::Gather;
use crate::units::{Level, Vpn, VpnRange};
use crate::vma::{VmaAttributes, VmaFlags, VmaState, cut, merge};

/// Moving pages of one mapping to a hole.
pub(super) struct MoveMapping<'a, 'v, M: Machine> {
    pub mappings: &'a Mappings<'v, M>,
    pub entries: &'a Entries<'v, M>,
    /// Of the whole space.
    pub guard: &'a RangeGuard<'a, M>,
    /// The pages that move, all of one mapping; none, where another mapping of the same object is made.
    pub old: VpnRange,
    /// Where they go, and more that the mapping gets; nothing is mapped there.
    pub new: VpnRange,
    /// Whether the old mapping stays, without its contents.
    pub leaves_old: bool,
}

/// A mapping that is busy until this is dropped, unless it was replaced by then.
struct Withdrawn<'a, 'v, M: Machine> {
    mappings: &'a Mappings<'v, M>,
    page: Vpn,
}

impl<'a, 'v, M: Machine> Withdrawn<'a, 'v, M> {
    /// Makes the mapping of the page busy: no fault installs anything for it.
    fn new(mappings: &'a Mappings<'v, M>, page: Vpn) -> Self {
        let reading = mappings.vm.rcu.read();
        if let Some(vma) = mappings.vmas.find(&reading, page) {
            vma.make_busy();
        }
        Self { mappings, page }
    }
}

impl<M: Machine> Drop for Withdrawn<'_, '_, M> {
    fn drop(&mut self) {
        self.mappings.make_live_if_busy(self.page);
    }
}

impl<'v, M: Machine> MoveMapping<'_, 'v, M> {
    /// Moves them. `charge`: pages that are committed, if those of the mapping are.
    ///
    /// # Errors
    /// [`Error::NoMemory`]: for too many mappings, pages that cannot be committed, or lack of memory. The
    /// pages are where they were.
    pub fn run(self, vma: &VmaAttributes, charge: u64) -> Result<(), Error> {
        let Self { mappings, guard, old, new, .. } = self;
        let limits = mappings.limits(guard.token());
        limits.may_move()?;
        if vma.flags.contains(VmaFlags::ACCOUNT) {
            limits.commit(charge)?;
        }
        // Two mappings may be busy: this one, and those that the new one joins.
        let withdrawn = Withdrawn::new(mappings, vma.range.start);
        // Its identity does not change any more.
        let vma = mappings.first_in(guard.token(), vma.range).ok_or(Error::Fault)?;
        let moved = vma.over(VpnRange::new(old.start, old.start.add(new.len()))).moved_to(new);
        let reserve = mappings.vm.reserve().ok_or(Error::NoMemory)?;
        mappings.enter_object(&moved)?;
        let ready = self.prepare(&vma).and_then(|taken| self.publish_new(&moved).map(|()| taken));
        let taken = match ready {
            Ok(taken) => taken,
            Err(error) => {
                self.free_new_tables();
                mappings.leave_object(&moved);
                return Err(error);
            }
        };
        let published = self.publish_old(&reserve);
        debug_assert!(published.is_ok(), "records were reserved");
        if vma.is_private() && !vma.anon.is_none() && !mutant!("remap.move-not-noted") {
            self.entries.note_moved();
        }
        self.move_entries(&vma, taken);
        self.drop_beyond_end(&moved);
        mappings.make_live_if_busy(new.start);
        drop(withdrawn);
        mappings.make_live_if_busy(old.start);
        published
    }

    fn token(&self) -> RangeToken<'_> {
        self.guard.token()
    }

    /// Whether entries move: those of objects are dropped, as faults find what they map.
    fn moves_entries(&self, vma: &VmaAttributes) -> bool {
        let is_objects = !vma.is_private() && vma.backing.object().is_some();
        !self.old.is_empty() && !is_objects
    }

    /// Where a page goes.
    fn moved(&self, page: Vpn) -> Vpn {
        self.new.start.add(page.0 - self.old.start.0)
    }

    /// The pages of the entry of `level` that has the page; whether it moves as it is.
    fn entry_pages(&self, page: Vpn, level: Level) -> (VpnRange, bool) {
        let unit = level.entry_pages();
        let start = Vpn(page.0 & !(unit - 1));
        let pages = VpnRange::new(start, start.add(unit));
        let distance = self.old.start.0.wrapping_sub(self.new.start.0);
        (pages, self.old.covers(pages) && distance.is_multiple_of(unit))
    }

    /// Everything that the move needs of tables: those at the new place, parts of leaves that cannot move
    /// whole, and a table that entries are taken into. `None` where no entry moves.
    fn prepare(&self, vma: &VmaAttributes) -> Result<Option<UnlinkedTable<'v, M>>, Error> {
        if !self.moves_entries(vma) {
            return Ok(None);
        }
        let Self { entries, new, old, .. } = *self;
        // Empty ones, which other calls have left in the hole: huge leaves take their places.
        entries.gather(self.token(), new, |gather| entries.free_tables(new, new, gather));
        let mut rest = old;
        while let Some(first) = first_entries(&entries.table, rest) {
            rest.start = match first {
                FirstEntries::Base(pages) => {
                    self.link_base_tables(pages)?;
                    pages.end
                }
                FirstEntries::Above { page, level, class } => self.prepare_above(page, level, class)?,
            };
        }
        Ok(Some(UnlinkedTable::new(entries.alloc_table()?)))
    }

    /// Links the tables of base pages where these pages, of one table, go: one or two.
    fn link_base_tables(&self, pages: VpnRange) -> Result<(), Error> {
        let (first, last) = (self.moved(pages.start), self.moved(Vpn(pages.end.0 - 1)));
        self.link(first, Level::Pte)?;
        self.link(last, Level::Pte)
    }

    /// Gets ready for an entry above the last level. Returns where to go on: at the same page where its leaf
    /// was split.
    fn prepare_above(&self, page: Vpn, level: Level, class: Option<LeafClass>) -> Result<Vpn, Error> {
        let (pages, is_whole) = self.entry_pages(page, level);
        if is_whole {
            self.link(self.moved(pages.start), level)?;
        } else if class.is_some() {
            Split::new(self.entries).at(page)?;
            return Ok(page);
        }
        Ok(pages.end.min(self.old.end))
    }

    fn link(&self, page: Vpn, level: Level) -> Result<(), Error> {
        let vm = self.entries.vm;
        link_tables(&self.entries.table, page, level, || {
            let table = vm.retry_after_trim(|| vm.memory.alloc_table(Priority::Normal))?;
            vm.count(Counter::TableAlloc);
            Some(table)
        })
        .map_err(|_| Error::NoMemory)
    }

    /// Frees the tables that were linked at the new place, where nothing is mapped.
    fn free_new_tables(&self) {
        let Self { mappings, entries, new, .. } = *self;
        if let Some(hole) = mappings.hole_around_seldom(self.token(), new) {
            entries.gather(self.token(), new, |gather| entries.free_tables(new, hole, gather));
        }
    }

    /// Publishes the new mapping, busy, and joined with neighbours.
    fn publish_new(&self, moved: &VmaAttributes) -> Result<(), Error> {
        let edit = VmaEdit::new(self.mappings, self.guard);
        let merged = merge(edit.ending_at(moved.range.start), *moved, edit.at(moved.range.end));
        let state = if mutant!("remap.born-live") { VmaState::Live } else { VmaState::Busy };
        let new = Some((merged.attributes, state));
        edit.replace(merged.attributes.range, &[new], VpnRange::default())
    }

    /// Publishes what remains of the old mapping: it may have been joined with the new one.
    fn publish_old(&self, reserve: &Reserve<'_, 'v, M>) -> Result<(), Error> {
        let Self { mappings, guard, old, new, leaves_old, .. } = *self;
        if old.is_empty() {
            return Ok(());
        }
        let edit = VmaEdit::new(mappings, guard);
        let vma = edit.at(old.start).ok_or(Error::Fault)?;
        if leaves_old {
            let anon = if vma.range == old { crate::vma::AnonId::NONE } else { vma.anon };
            let emptied = VmaAttributes { anon, ..vma.with_flags(vma.flags - VmaFlags::LOCKED) };
            let busy = Some((emptied, VmaState::Busy));
            return edit.replace_with(reserve, vma.range, &[busy], VpnRange::default());
        }
        let piece = |piece: Option<VmaAttributes>| {
            let state = |piece: &VmaAttributes| match piece.range.contains(new.start) {
                true => VmaState::Busy,
                false => VmaState::Live,
            };
            piece.map(|piece| (piece, state(&piece)))
        };
        edit.replace_with(reserve, vma.range, &cut(&vma, old).map(piece), old)
    }

    /// Moves the entries of the old pages into `taken` and from there to their new places, clears what does
    /// not move, flushes, and frees the tables of the hole that the old pages leave.
    fn move_entries(&self, vma: &VmaAttributes, taken: Option<UnlinkedTable<'v, M>>) {
        let Self { mappings, entries, old, leaves_old, .. } = *self;
        if old.is_empty() {
            return;
        }
        let (token, pending) = (self.token(), entries.tlb.begin_edit());
        let hole = if leaves_old { None } else { mappings.hole_around_seldom(token, old) };
        entries.gather_pending(token, &pending, old, |gather| {
            if let Some(mut taken) = taken {
                if vma.backing.object().is_some() && !mutant!("remap.object-entries-moved") {
                    entries.unhook_object_leaves(old, gather);
                }
                self.move_each(&mut taken, gather);
            }
            Zap::of_unmapped(entries).in_hole(old, hole, gather);
        });
        drop(pending);
        mappings.unmap_leaving();
    }

    fn move_each(&self, taken: &mut UnlinkedTable<'v, M>, gather: &mut Gather<'_, 'v, M>) {
        let tree = &self.entries.table;
        let mut rest = self.old;
        while let Some(first) = first_entries(tree, rest) {
            rest.start = match first {
                FirstEntries::Base(pages) => {
                    let to = self.moved(pages.start);
                    let first = Level::Pte.index(to);
                    let len = pages.len().min((Level::ENTRIES - first) as u64);
                    let from = VpnRange::new(pages.start, pages.start.add(len));
                    if take_all(tree, from, taken, first) {
                        Self::flush(gather, |gather| gather.need_flush(from));
                        put_all(tree, to, taken);
                    }
                    from.end
                }
                FirstEntries::Above { page, level, class } => self.move_above(page, level, class, gather),
            };
        }
    }

    /// Moves an entry above the last level, if it moves whole. Returns where it ends.
    fn move_above(
        &self,
        page: Vpn,
        level: Level,
        class: Option<LeafClass>,
        gather: &mut Gather<'_, 'v, M>,
    ) -> Vpn {
        let (tree, (pages, is_whole)) = (&self.entries.table, self.entry_pages(page, level));
        if is_whole && let Some(word) = take_above(tree, pages.start, level) {
            Self::flush(gather, |gather| match class {
                // By table it shows a translation for each page.
                Some(class) if !class.is_zeros() => gather.need_flush_of_leaf(pages),
                _ => gather.need_flush(pages),
            });
            put_above(tree, self.moved(pages.start), level, word);
        }
        pages.end.min(self.old.end)
    }

    /// Flushes what was taken, before it is put anywhere.
    fn flush(gather: &mut Gather<'_, 'v, M>, note: impl FnOnce(&mut Gather<'_, 'v, M>)) {
        if !mutant!("remap.flush-skipped") {
            note(gather);
            gather.flush_now();
        }
    }

    /// Copies of pages beyond the end of their object go: a truncation that has passed the new place before
    /// they came does not find them. It has set the length before that.
    fn drop_beyond_end(&self, moved: &VmaAttributes) {
        let Self { mappings, entries, old, .. } = *self;
        let object = moved.backing.object().filter(|_| moved.is_private() && !moved.anon.is_none());
        let Some(object) = object.filter(|_| moved.hugetlb().is_none()) else { return };
        let pages = mappings.vm.object_pages_exact(object);
        let kept = pages.saturating_sub(moved.offset).min(old.len());
        if kept < old.len() && !mutant!("remap.copies-beyond-end-kept") {
            let start = moved.range.start;
            Zap::of_contents(entries).run(self.token(), VpnRange::new(start.add(kept), start.add(old.len())));
        }
    }
}
