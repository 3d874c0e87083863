//! Scans of accessed bits: what they count, what stays, and what a flush after them is for.

use crate::machine::Machine;
use crate::space::Counter;
use crate::space::tests::world::base::{TABLE, TestSpace, leaf, load, map, page, store, with_space};
use crate::table::AccessedScan;
use crate::units::{Access, Vpn, VpnRange};
use std::vec::Vec;

fn pages(nr: u64, len: u64) -> VpnRange {
    VpnRange::new(page(nr).vpn(), page(nr).vpn().add(len))
}

fn scan(space: &TestSpace<'_>, range: VpnRange) -> (AccessedScan, Vec<Vpn>) {
    let mut seen = Vec::new();
    let scan = space.walker().scan_accessed(range, &space.vm().read(), |pages, _| seen.push(pages.start));
    (scan, seen)
}

#[test]
fn a_scan_counts_what_was_used_since_the_last_one_and_keeps_what_was_written() {
    with_space(|vm, space| {
        map(&space, 0, 3 * TABLE);
        for nr in [1, 2, TABLE, 2 * TABLE + 7] {
            store(&space, page(nr), 1);
        }
        load(&space, page(5));
        let (first, seen) = scan(&space, pages(0, 3 * TABLE));
        assert_eq!((first.leaves, first.accessed), (5, 5));
        assert_eq!(seen, [1, 2, 5, TABLE, 2 * TABLE + 7].map(|nr| page(nr).vpn()), "in order");
        let written = leaf(&space, page(2)).unwrap();
        assert!(!written.accessed && written.dirty, "a dirty bit is lost");
        assert!(written.rights.contains(Access::Write.needs()), "a right is lost");
        assert_eq!(scan(&space, pages(0, 3 * TABLE)).0.accessed, 0);
        assert_eq!(vm.totals().get(Counter::TlbFlush), 0, "a scan flushes nothing");
        // A range that ends within a table, and one that reaches beyond the space.
        assert_eq!(scan(&space, pages(2, 1)).0.leaves, 1);
        let all = VpnRange { start: Vpn(0), end: Vpn(u64::MAX >> 12) };
        assert_eq!(scan(&space, all).0.leaves, 5);
        assert_eq!(
            scan(&space, VpnRange { start: Vpn(u64::MAX >> 12), end: Vpn(u64::MAX >> 12) }).0.leaves,
            0
        );
    });
}

#[test]
fn a_fork_an_unmap_and_a_protection_find_the_pages_after_a_scan() {
    with_space(|_, space| {
        map(&space, 0, 8);
        (0..8).for_each(|nr| store(&space, page(nr), nr as u8));
        assert_eq!(scan(&space, pages(0, 8)).0.accessed, 8);
        let child = space.fork().unwrap();
        assert_eq!(scan(&child, pages(0, 8)).0.leaves, 8);
        space.protect(page(0), 2 << 12, crate::vma::VmaFlags::READ).unwrap();
        space.unmap(page(2), 2 << 12).unwrap();
        assert_eq!(scan(&space, pages(0, 8)).0.leaves, 6);
        for nr in [0, 1, 4, 7] {
            assert_eq!((load(&space, page(nr)), load(&child, page(nr))), (nr as u8, nr as u8));
        }
    });
}

#[test]
fn after_a_scan_that_flushes_no_cpu_has_the_pages_cached() {
    with_space(|vm, space| {
        let running = space.activate(None);
        map(&space, 0, 2 * TABLE);
        let machine = vm.machine();
        for nr in [0, 3, TABLE + 1] {
            store(&space, page(nr), 1);
            assert!(machine.translate(page(nr).vpn(), Access::Write).is_some());
        }
        let is_cached = |nr: u64| machine.has_cached(0, page(nr).vpn());
        assert_eq!(scan(&space, pages(0, 2)).0.accessed, 1);
        assert!(is_cached(0), "the bit of a page that is used through the TLB stays clear");
        let mut seen = Vec::new();
        let scan =
            space.walker().scan_accessed_and_flush(pages(0, 2 * TABLE), |pages, _| seen.push(pages.start));
        assert_eq!((scan.leaves, scan.accessed), (3, 2));
        assert_eq!(seen, [page(3).vpn(), page(TABLE + 1).vpn()]);
        assert!(!is_cached(3) && !is_cached(TABLE + 1), "a use of the page would not be noted");
        assert_eq!(vm.totals().get(Counter::TlbFlush), 1, "one flush for all");
        space.walker().scan_accessed_and_flush(pages(0, 2 * TABLE), |_, _| panic!("nobody used a page"));
        assert_eq!(vm.totals().get(Counter::TlbFlush), 1, "nothing was cleared");
        assert!(machine.loaded_root() == Some(space.root()));
        drop(running);
    });
}
