//! What a first-level cache, a last-level cache and a TLB miss, by the kind of zero page: a model.
//!
//! The author of the seed weighed cache against TLB: a page of 2 MiB takes 2 MiB of cache for each way that
//! its lines compete for, and one entry of the TLB; a table of 4 KiB zero pages takes 64 lines, and an entry
//! for each page. The model counts both for one access pattern, with a geometry that the report states.
//! Entries that a walk reads are cached as other data is.
//!
//! ```text
//!   address ─► TLB ── miss ─► entry of the PMD table, and of the PTE table ─► caches
//!               │
//!               ▼
//!           physical line ─► first-level cache ── miss ─► last-level cache ── miss ─► memory
//! ```
//!
//! The TLB is set-associative as the caches are. That of the software machine is direct-mapped, so that the
//! two halves of a range would evict each other's entries.

use super::ZeroPage;
use super::pattern::{HUGE, LINE, PAGE, Pattern};
use serde::Serialize;

/// A set-associative cache, least recently used first out.
#[derive(Clone, Debug)]
struct Cache {
    /// Lines of each set, the last used first; 0: none.
    sets: Vec<u64>,
    ways: usize,
    misses: u64,
}

impl Cache {
    fn new(size: CacheSize) -> Self {
        Self::of_entries((size.bytes / LINE) as usize, size.ways)
    }

    fn of_entries(entries: usize, ways: usize) -> Self {
        Self { sets: vec![0; entries], ways, misses: 0 }
    }

    /// Whether the line was there; it is afterwards.
    #[inline]
    fn access(&mut self, line: u64) -> bool {
        let nr_sets = self.sets.len() / self.ways;
        let first = (line as usize % nr_sets) * self.ways;
        let set = &mut self.sets[first..first + self.ways];
        let tag = line + 1;
        match set.iter().position(|&found| found == tag) {
            Some(at) => {
                set[..=at].rotate_right(1);
                true
            }
            None => {
                set.rotate_right(1);
                set[0] = tag;
                self.misses += 1;
                false
            }
        }
    }
}

/// The size of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CacheSize {
    /// Bytes.
    pub bytes: u64,
    /// Lines that have one index.
    pub ways: usize,
}

/// The model's caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Geometry {
    /// First level, data.
    pub l1: CacheSize,
    /// Last level.
    pub llc: CacheSize,
    /// Bytes of a line, of both caches.
    pub line: u64,
    /// Entries of the TLB for pages of 4 KiB and of 2 MiB.
    pub tlb: [usize; 2],
    /// Entries of the TLB that have one index.
    pub tlb_ways: usize,
}

impl Geometry {
    /// 32 KiB of 8 ways, and 24 MiB of 24 ways for all cores, as the seed's processors have them, with lines
    /// of 64 bytes; 512 entries for small pages, and 32 for large ones, of 4 ways.
    pub const SEED: Self = Self {
        l1: CacheSize { bytes: 32 << 10, ways: 8 },
        llc: CacheSize { bytes: 24 << 20, ways: 24 },
        line: LINE,
        tlb: [512, 32],
        tlb_ways: 4,
    };
}

/// What one warm round missed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Misses {
    /// Accesses of the program.
    pub accesses: u64,
    /// Translations that the TLB did not have.
    pub tlb: u64,
    /// Lines that the first-level cache did not have; reads of entries count.
    pub l1: u64,
    /// Of those, lines that the last-level cache did not have either.
    pub llc: u64,
}

/// Where the model puts tables, the zero page, and memory of its own: far apart.
const PMD_ENTRIES: u64 = 1 << 40;
const PTE_ENTRIES: u64 = 2 << 40;
const SHARED_TABLE: u64 = 3 << 40;
const ZEROS: u64 = 4 << 40;
const MEMORY: u64 = 5 << 40;

struct Model {
    kind: ZeroPage,
    l1: Cache,
    llc: Cache,
    /// Of pages instead of lines.
    tlb: Cache,
}

impl Model {
    fn new(kind: ZeroPage, geometry: Geometry) -> Self {
        let (l1, llc) = (Cache::new(geometry.l1), Cache::new(geometry.llc));
        let tlb = Cache::of_entries(geometry.tlb[usize::from(kind.is_huge())], geometry.tlb_ways);
        Self { kind, l1, llc, tlb }
    }

    #[inline]
    fn load(&mut self, at: u64) {
        if !self.l1.access(at / LINE) {
            self.llc.access(at / LINE);
        }
    }

    /// Reads the entries that lead to the page of the address.
    fn walk(&mut self, at: u64) {
        self.load(PMD_ENTRIES + at / HUGE * 8);
        match self.kind {
            ZeroPage::Huge | ZeroPage::None => {}
            ZeroPage::Virtual => self.load(SHARED_TABLE + at % HUGE / PAGE * 8),
            ZeroPage::Small => self.load(PTE_ENTRIES + at / PAGE * 8),
        }
    }

    #[inline]
    fn access(&mut self, at: u64) {
        let page = if self.kind.is_huge() { HUGE } else { PAGE };
        if !self.tlb.access(at / page) {
            self.walk(at);
        }
        self.load(match self.kind {
            ZeroPage::Huge | ZeroPage::Small | ZeroPage::Virtual => ZEROS + at % page,
            ZeroPage::None => MEMORY + at,
        });
    }
}

/// What the second of two rounds over `len` bytes misses.
pub fn misses_of(kind: ZeroPage, pattern: Pattern, len: u64, geometry: Geometry) -> Misses {
    let mut model = Model::new(kind, geometry);
    pattern.round(len, |at| model.access(at));
    (model.tlb.misses, model.l1.misses, model.llc.misses) = (0, 0, 0);
    pattern.round(len, |at| model.access(at));
    let accesses = pattern.accesses(len);
    Misses { accesses, tlb: model.tlb.misses, l1: model.l1.misses, llc: model.llc.misses }
}

#[cfg(test)]
#[path = "tests/caches.rs"]
mod tests;
