//! What a page leads to, told without a lock: for emulators, for machine checks, for profilers.

use super::{EntryRef, PageTable, is_canonical, walk};
use crate::machine::{CacheType, Entry, Format, Machine};
use crate::sync::ReadGuard;
use crate::sync::atomic::Ordering::*;
use crate::units::{Access, Level, PageSize, Pfn, Rights, Vpn};
use core::fmt;

/// What an entry said when it was read. It may be stale at once: the page may be mapped to another frame, or
/// to none, and the frame be freed and used for something else, before the caller looks at the value. A
/// caller that goes on to use the frame pins it ([`try_pin_fast`](crate::space::AddressSpace::try_pin_fast)),
/// or knows on other grounds that it stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub struct StaleTranslation {
    /// The frame of the page: inside of the leaf, where that is larger.
    pub pfn: Pfn,
    /// The accesses that the entry allows. A call that takes rights away has returned only after the entry
    /// allows no more.
    pub rights: Rights,
    /// How much the leaf maps.
    pub size: PageSize,
    /// How accesses are cached.
    pub cache: CacheType,
    /// Whether the entry is marked as used; after a translation for an access that marks it, yes.
    pub accessed: bool,
    /// The same of stores.
    pub dirty: bool,
    /// Whether the entry owns a mapping of the frame: not so of the zero page, and of PFN-mapped frames.
    pub owned: bool,
}

/// Why a page leads to no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NoTranslation {
    /// The format, or the space, translates no such page.
    OutOfRange,
    /// There is no entry: nothing is mapped there, or nothing was touched.
    NotPresent,
    /// An operation is under way: the entry is a marker. Soon there is a leaf, a table or nothing.
    Busy,
    /// The entry does not allow the access.
    NotAllowed,
    /// The entry changed before it could be marked. Ask again, as the hardware would walk again.
    EntryChanged,
}

/// Whether a translation is noted in the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NoteUse {
    /// The entry stays as it is.
    Leave,
    /// Accessed and dirty bits that the access sets, and that are clear, are set, as the hardware does.
    AsHardware,
}

/// What the page leads to, whatever the entry allows. Takes no lock, writes nothing that CPUs share.
///
/// # Errors
/// [`NoTranslation`].
///
/// # Panics
/// As [`walk`].
#[inline]
pub fn translate<M: Machine>(
    tree: &PageTable<'_, M>,
    page: Vpn,
    reading: &ReadGuard<'_, M::Cpu>,
) -> Result<StaleTranslation, NoTranslation> {
    find(tree, page, reading)?.translation(page)
}

/// What an access of the page is translated to, as the hardware would: where the entry allows it. Takes no
/// lock. Writes the entry where `note` says so and a bit is clear, by one compare-exchange with the word that
/// was read: so no right, frame or bit that a writer has taken away comes back, and the mark is one of the
/// mapping that was translated.
///
/// # Errors
/// [`NoTranslation`].
///
/// # Panics
/// As [`walk`].
#[inline]
pub fn translate_access<M: Machine>(
    tree: &PageTable<'_, M>,
    page: Vpn,
    access: Access,
    note: NoteUse,
    reading: &ReadGuard<'_, M::Cpu>,
) -> Result<StaleTranslation, NoTranslation> {
    let found = find(tree, page, reading)?;
    let translation = found.translation(page)?;
    if !translation.rights.contains(access.needs()) && !mutant!("translate.rights-ignored") {
        return Err(NoTranslation::NotAllowed);
    }
    if note == NoteUse::Leave {
        return Ok(translation);
    }
    found.note_use(access)?;
    Ok(StaleTranslation {
        accessed: true,
        dirty: translation.dirty || access == Access::Write,
        ..translation
    })
}

/// The entry of a page that the format translates.
#[inline(always)]
fn find<'r, 't, M: Machine>(
    tree: &'t PageTable<'t, M>,
    page: Vpn,
    reading: &'r ReadGuard<'_, M::Cpu>,
) -> Result<EntryRef<'r, 't, M>, NoTranslation> {
    if !is_canonical::<M::Format>(page) {
        return Err(NoTranslation::OutOfRange);
    }
    Ok(walk(tree, page, Level::Pte, reading))
}

impl<M: Machine> EntryRef<'_, '_, M> {
    /// What the entry, of the walk to `page`, says of that page.
    #[inline(always)]
    fn translation(&self, page: Vpn) -> Result<StaleTranslation, NoTranslation> {
        let level = self.table.level();
        let leaf = match self.entry() {
            Entry::Leaf(leaf) => leaf,
            Entry::Marker(_) => return Err(NoTranslation::Busy),
            Entry::Absent | Entry::Table(_) => return Err(NoTranslation::NotPresent),
        };
        let size = level.leaf_size().ok_or(NoTranslation::NotPresent)?;
        let inside = if mutant!("translate.first-frame-of-leaf") { 0 } else { page.0 & (size.pages() - 1) };
        // By table the hardware walks on, to an entry that shows the zero page.
        let (pfn, size) = if leaf.by_table() && !mutant!("zero.table-translated-as-block") {
            (self.table.tree.memory.zero_frame(), PageSize::Base)
        } else {
            (leaf.pfn.add(inside), size)
        };
        Ok(StaleTranslation {
            pfn,
            rights: leaf.rights,
            size,
            cache: leaf.cache,
            accessed: leaf.accessed,
            dirty: leaf.dirty,
            owned: leaf.owned(),
        })
    }

    /// Marks the leaf as the hardware does for the access, unless it is marked, or has changed since it was
    /// read.
    ///
    /// Relaxed: as of a [pin](Self::try_pin), nothing is taken from the entry but what the walk acquired.
    #[inline(always)]
    fn note_use(&self, access: Access) -> Result<(), NoTranslation> {
        let used = M::Format::used(self.word, access == Access::Write);
        if used == self.word {
            return Ok(());
        }
        let cell = self.table.word(self.slot);
        if mutant!("translate.marked-by-store") {
            cell.store(used, Relaxed);
            return Ok(());
        }
        let exchanged = cell.compare_exchange(self.word, used, Relaxed, Relaxed);
        exchanged.map(drop).map_err(|_| NoTranslation::EntryChanged)
    }
}

impl fmt::Display for NoTranslation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NoTranslation::OutOfRange => "no page of the space",
            NoTranslation::NotPresent => "nothing is mapped there",
            NoTranslation::Busy => "an operation is under way there",
            NoTranslation::NotAllowed => "the entry does not allow the access",
            NoTranslation::EntryChanged => "the entry changed meanwhile",
        })
    }
}

impl core::error::Error for NoTranslation {}
