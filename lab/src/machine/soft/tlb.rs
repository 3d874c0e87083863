//! A software TLB: the translations that one CPU has cached.
//!
//! Direct-mapped sets: pages of three sizes, and *upper levels* (pointers to tables found in entries of three
//! levels), so that a table freed without a flush is used after it was freed, as it would be on hardware. An
//! entry carries the generation in which it was filled; dropping everything is one increment.
//!
//! Only the CPU that owns it touches a TLB: there are no atomics. The TLB is stricter than most hardware: it
//! says when two sizes cover one page, or when a page's frame changed with no flush between.

use super::set::{Generation, Set};
use interleaf::units::{Access, Level, PageSize, Pfn, PhysAddr, Rights, VirtAddr, Vpn, VpnRange};

/// A page as cached in a TLB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Translation {
    /// First page.
    pub vpn: Vpn,
    /// How much it covers.
    pub size: PageSize,
    /// First frame.
    pub pfn: Pfn,
    /// What the entry allowed when it was read.
    pub rights: Rights,
    /// Whether the entry's dirty bit is known to be set; a store needs that.
    pub dirty: bool,
}

/// A state that no correct use of a TLB leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// Two sizes cover one page.
    SizesOverlap {
        /// The translation that was there.
        old: Translation,
        /// The one that came.
        new: Translation,
    },
    /// A page's frame changed while the old translation was still there.
    FrameChanged {
        /// The translation that was there.
        old: Translation,
        /// The one that came.
        new: Translation,
    },
}

/// What a slot for pages holds: one word.
///
/// | bits | what |
/// |---|---|
/// | 0..8 | [`Rights`] of user code without a walk: none unless `USER`, no store unless dirty |
/// | 8..16 | rights |
/// | 16 | dirty |
/// | 24..64 | frame |
#[derive(Clone, Copy, Debug)]
struct Page(u64);

impl Page {
    fn of(new: &Translation) -> Self {
        let mut allowed = if new.rights.contains(Rights::USER) { new.rights } else { Rights::empty() };
        allowed.set(Rights::WRITE, allowed.contains(Rights::WRITE) && new.dirty);
        let bits = |rights: Rights| u64::from(rights.bits());
        Self(new.pfn.0 << 24 | u64::from(new.dirty) << 16 | bits(new.rights) << 8 | bits(allowed))
    }

    fn allows(self, access: Access) -> bool {
        self.0 as u8 & access.needs().bits() != 0
    }

    fn pfn(self) -> Pfn {
        Pfn(self.0 >> 24)
    }

    fn as_translation(self, vpn: Vpn, size: PageSize) -> Translation {
        let rights = Rights::from_bits_truncate((self.0 >> 8) as u8);
        Translation { vpn, size, pfn: self.pfn(), rights, dirty: self.0 & 1 << 16 != 0 }
    }
}

/// The TLB of one CPU.
#[derive(Clone, Debug)]
pub struct Tlb {
    generation: Generation,
    base: Set<1024>,
    huge: Set<64>,
    giant: Set<8>,
    /// Whether a page larger than the base size came in since everything was forgotten: only then are their
    /// sets looked at.
    holds_large: bool,
    /// Tables found in entries of `Pmd`, `Pud`, `P4d`: their frames.
    upper: [Set<16>; 3],
    /// Tables found in leaves [by table](interleaf::machine::LeafKind::BY_TABLE), of which a slot allows some
    /// rights: frame and rights.
    shared: Set<16>,
    /// Whether one came in since everything was forgotten.
    holds_shared: bool,
}

/// Levels of the entries whose tables are cached, lowest first.
const UPPER: [Level; 3] = [Level::Pmd, Level::Pud, Level::P4d];
/// The levels of those tables.
const BELOW: [Level; 3] = [Level::Pte, Level::Pmd, Level::Pud];

impl Tlb {
    /// An empty TLB.
    pub fn new() -> Self {
        Self {
            generation: Generation::FIRST,
            base: Set::new(Level::Pte.entry_shift()),
            huge: Set::new(Level::Pmd.entry_shift()),
            giant: Set::new(Level::Pud.entry_shift()),
            holds_large: false,
            upper: UPPER.map(|level| Set::new(level.entry_shift())),
            shared: Set::new(Level::Pmd.entry_shift()),
            holds_shared: false,
        }
    }

    /// Where user code finds the byte, if an entry allows the access.
    #[inline]
    pub fn hit(&self, addr: VirtAddr, access: Access) -> Option<PhysAddr> {
        let page = self.base.get(addr.vpn(), self.generation).map(Page);
        match page.filter(|page| page.allows(access)) {
            Some(page) => Some(PhysAddr(page.pfn().addr().0 | addr.offset() as u64)),
            None if self.holds_large => self.hit_large(addr, access),
            None => None,
        }
    }

    #[cold]
    fn hit_large(&self, addr: VirtAddr, access: Access) -> Option<PhysAddr> {
        let sets = [
            (self.huge.get(addr.vpn(), self.generation), PageSize::Huge),
            (self.giant.get(addr.vpn(), self.generation), PageSize::Giant),
        ];
        let found = sets.into_iter().find_map(|(word, size)| Some((Page(word?), size)));
        let (page, size) = found.filter(|(page, _)| page.allows(access))?;
        Some(PhysAddr(page.pfn().addr().0 | (addr.0 & (size.bytes() - 1))))
    }

    /// Whether a cached page refuses the access to user code, for hardware that remembers that. One that only
    /// lacks the dirty bit refuses nothing.
    pub fn refuses(&self, vpn: Vpn, access: Access) -> bool {
        let mut refused = false;
        self.for_each_page(VpnRange::new(vpn, vpn.add(1)), |page| {
            refused |= !page.rights.contains(access.needs() | Rights::USER);
        });
        refused
    }

    /// Caches a page. Returns the violation where it contradicts a cached one; the new page is cached in any
    /// case.
    #[inline(always)]
    pub fn insert(&mut self, new: Translation) -> Option<Violation> {
        let violation = if self.holds_large || new.size != PageSize::Base {
            self.contradicted(&new)
        } else {
            let old = self.base.get(new.vpn, self.generation).map(Page);
            let old = old.map(|page| page.as_translation(new.vpn, PageSize::Base));
            old.filter(|old| old.pfn != new.pfn).map(|old| Violation::FrameChanged { old, new })
        };
        let word = Page::of(&new).0;
        match new.size {
            PageSize::Base => self.base.insert(new.vpn, self.generation, word),
            PageSize::Huge => self.huge.insert(new.vpn, self.generation, word),
            PageSize::Giant => self.giant.insert(new.vpn, self.generation, word),
        }
        self.holds_large |= new.size != PageSize::Base;
        violation
    }

    /// The cached page that `new` contradicts, which is dropped.
    #[cold]
    fn contradicted(&mut self, new: &Translation) -> Option<Violation> {
        let (new, mut violation) = (*new, None);
        let range = VpnRange::new(new.vpn, new.vpn.add(new.size.pages()));
        self.for_each_page(range, |old| {
            if old.size != new.size {
                violation = Some(Violation::SizesOverlap { old, new });
            } else if old.pfn != new.pfn {
                violation = Some(Violation::FrameChanged { old, new });
            }
        });
        if violation.is_some() {
            self.flush_range(range);
        }
        violation
    }

    /// The table cached of a leaf by table that maps `vpn`, and what the leaf allowed.
    #[inline]
    pub fn shared_table_for(&self, vpn: Vpn) -> Option<(Pfn, Rights)> {
        let word = if self.holds_shared { self.shared.get(vpn, self.generation) } else { None };
        word.map(|word| (Pfn(word >> 8), Rights::from_bits_truncate(word as u8)))
    }

    /// Caches the table of a leaf by table.
    #[cold]
    pub fn insert_shared_table(&mut self, vpn: Vpn, table: Pfn, rights: Rights) {
        self.shared.insert(vpn, self.generation, table.0 << 8 | u64::from(rights.bits()));
        self.holds_shared = true;
    }

    /// The lowest table cached on the way to `vpn`, and its level.
    #[inline]
    pub fn table_for(&self, vpn: Vpn) -> Option<(Level, Pfn)> {
        let [lowest, ..] = &self.upper;
        match lowest.get(vpn, self.generation) {
            Some(table) => Some((BELOW[0], Pfn(table))),
            None => self.higher_table_for(vpn),
        }
    }

    fn higher_table_for(&self, vpn: Vpn) -> Option<(Level, Pfn)> {
        let found = |(set, level): (&Set<16>, Level)| Some((level, Pfn(set.get(vpn, self.generation)?)));
        self.upper.iter().zip(BELOW).find_map(found)
    }

    /// Caches the table that an entry of `level` on the way to `vpn` points to.
    #[inline]
    pub fn insert_table(&mut self, level: Level, vpn: Vpn, table: Pfn) {
        if let Some(at) = UPPER.iter().position(|&upper| upper == level) {
            self.upper[at].insert(vpn, self.generation, table.0);
        }
    }

    /// Drops one page, whatever its size, as a page fault does. Hardware drops the tables on the way to
    /// it too. Here they stay, but for one whose slot may have refused the access, so that code which frees a
    /// table and relies on a fault to drop it, instead of on a flush, is caught.
    #[inline]
    pub fn forget(&mut self, vpn: Vpn) {
        let generation = self.generation;
        self.base.forget(vpn, generation);
        if self.holds_large {
            self.huge.forget(vpn, generation);
            self.giant.forget(vpn, generation);
        }
        if self.holds_shared {
            self.shared.forget(vpn, generation);
        }
    }

    /// Drops every page that shares a page with `range`, whatever its size, and the tables on the way to
    /// it.
    pub fn flush_range(&mut self, range: VpnRange) {
        let generation = self.generation;
        self.base.flush(range, generation);
        self.upper.iter_mut().for_each(|set| set.flush(range, generation));
        if self.holds_large {
            self.huge.flush(range, generation);
            self.giant.flush(range, generation);
        }
        if self.holds_shared {
            self.shared.flush(range, generation);
        }
    }

    /// Drops everything.
    pub fn flush_all(&mut self) {
        self.generation = self.generation.next().unwrap_or_else(|| {
            self.base.clear();
            self.huge.clear();
            self.giant.clear();
            self.upper.iter_mut().for_each(Set::clear);
            self.shared.clear();
            Generation::FIRST
        });
        (self.holds_large, self.holds_shared) = (false, false);
    }

    /// Passes every cached page to `f` that shares a page with `range`.
    pub fn for_each_page(&self, range: VpnRange, mut f: impl FnMut(Translation)) {
        let mut show = |size: PageSize, tag: u64, word: u64| {
            f(Page(word).as_translation(Vpn(tag << size.level().entry_shift()), size));
        };
        self.base.for_each(range, self.generation, |tag, word| show(PageSize::Base, tag, word));
        if self.holds_large {
            self.huge.for_each(range, self.generation, |tag, word| show(PageSize::Huge, tag, word));
            self.giant.for_each(range, self.generation, |tag, word| show(PageSize::Giant, tag, word));
        }
    }

    /// Passes every cached table to `f`, with the level of the entry it was found in.
    pub fn for_each_table(&self, mut f: impl FnMut(Level, Pfn)) {
        for (set, level) in self.upper.iter().zip(UPPER) {
            set.for_each(EVERYTHING, self.generation, |_, table| f(level, Pfn(table)));
        }
        self.shared.for_each(EVERYTHING, self.generation, |_, word| f(Level::Pmd, Pfn(word >> 8)));
    }
}

/// Every page there is.
pub const EVERYTHING: VpnRange = VpnRange { start: Vpn(0), end: Vpn(1 << 52) };

impl Default for Tlb {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
#[path = "tests/tlb.rs"]
mod tests;
