//! The model on sizes at which what it has to say can be counted by hand.

use super::*;

const LEN: u64 = 64 << 20;

fn misses(kind: ZeroPage, pattern: Pattern) -> Misses {
    misses_of(kind, pattern, LEN, Geometry::SEED)
}

#[test]
fn a_cache_forgets_what_was_used_least_recently() {
    let mut cache = Cache::new(CacheSize { bytes: 2 * 2 * LINE, ways: 2 });
    assert_eq!([0, 2, 0, 4, 0, 2].map(|line| cache.access(line)), [false, false, true, false, true, false]);
    assert_eq!(cache.misses, 4);
    assert!(!cache.access(1), "another set");
}

#[test]
fn a_huge_page_of_zeros_spares_the_tlb_and_not_the_first_cache() {
    let huge = misses(ZeroPage::Huge, Pattern::CompareHalves);
    let shared = misses(ZeroPage::Virtual, Pattern::CompareHalves);
    assert_eq!((huge.accesses, huge.tlb), (LEN / LINE, 0), "32 pages, 32 entries");
    // Both halves read the same line of the one page, which 2 MiB later is not cached any more.
    assert_eq!(huge.l1, LEN / LINE / 2);
    assert_eq!(huge.llc, 0, "2 MiB stay in the last level");
    // The 64 lines of a small page stay in the first level, but each page needs an entry of the TLB.
    assert_eq!(shared.tlb, LEN / PAGE);
    assert!(shared.l1 < huge.l1 / 20 && shared.llc == 0, "{shared:?}");
}

#[test]
fn a_byte_per_page_misses_the_tlb_on_each_but_for_huge_pages() {
    let [huge, shared, small] =
        [ZeroPage::Huge, ZeroPage::Virtual, ZeroPage::Small].map(|kind| misses(kind, Pattern::BytePerPage));
    assert_eq!((huge.tlb, shared.tlb, small.tlb), (0, LEN / PAGE, LEN / PAGE), "16 384 pages, 512 entries");
    // Entries of the one shared table fit into the first level, those of all tables do not.
    assert!(shared.l1 < small.l1, "{shared:?} {small:?}");
}

#[test]
fn memory_of_its_own_misses_the_last_level() {
    let none = misses(ZeroPage::None, Pattern::CompareHalves);
    assert!(none.llc > LEN / LINE * 9 / 10, "64 MiB in 24: {none:?}");
}
