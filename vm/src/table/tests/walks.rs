//! Scans of accessed bits, translations and searches, in every format.

use super::mapper::{FRAMES, USER_RO, USER_RW, pfnmap, range, with_memory};
use crate::machine::Format;
use crate::machine::testing::TestFormat;
use crate::sync::with_interrupts_off;
use crate::table::format::{Aarch64, Ept, Sv39, Sv57, X86_64, X86_64La57};
use crate::table::{FrameSearch, MapError, Mapper, NoTranslation, NoteUse, find_frame, scan_accessed};
use crate::units::{Access, PageSize, Pfn, PfnRange, Rights, Vpn, VpnRange};
use std::vec::Vec;

const HUGE: u64 = PageSize::Huge.pages();

/// PFN-mapped frames, from the `first` on.
fn frames(first: u64, len: u64) -> PfnRange {
    PfnRange::new(FRAMES.start.add(first), FRAMES.start.add(first + len))
}

/// Eight base pages, one huge one, and a page without rights.
fn each_walker_meets_every_kind_of_entry<F: Format>(base: u64) {
    with_memory::<F>(|_, memory, rcu| {
        let mapper = Mapper::new(memory, rcu, |_| ()).unwrap();
        let map = |at: u64, frames, size, rights| mapper.map(Vpn(at), &pfnmap(), frames, size, rights);
        map(base + 1, frames(1, 8), PageSize::Base, USER_RW).unwrap();
        map(base + HUGE, frames(HUGE, HUGE), PageSize::Huge, USER_RO).unwrap();
        map(base + 2 * HUGE + 5, frames(0, 1), PageSize::Base, Rights::empty()).unwrap();
        let all = range(base, 4 * HUGE);

        let mut seen = Vec::new();
        let scan = mapper.scan_accessed(all, |pages, leaf| seen.push((pages, leaf.dirty))).unwrap();
        assert_eq!((scan.leaves, scan.accessed), (9, 9), "{}", F::NAME);
        let mut expected: Vec<_> = (1..9).map(|page| (range(base + page, 1), true)).collect();
        expected.push((range(base + HUGE, HUGE), true));
        assert_eq!(seen, expected, "{}: the leaves as they were, dirty bits too", F::NAME);
        let again = mapper.scan_accessed(all, |_, _| panic!("a page that nobody used")).unwrap();
        assert_eq!((again.leaves, again.accessed), (9, 0), "{}", F::NAME);

        let translate = |page: u64, access, note| mapper.translate_access(Vpn(base + page), access, note);
        let idle = translate(3, Access::Read, NoteUse::Leave).unwrap();
        assert_eq!((idle.pfn, idle.size, idle.rights), (FRAMES.start.add(3), PageSize::Base, USER_RW));
        assert!(!idle.accessed && idle.dirty && !idle.owned, "{}: a dirty bit is lost", F::NAME);
        let inside = translate(HUGE + 77, Access::Read, NoteUse::AsHardware).unwrap();
        assert_eq!((inside.pfn, inside.size), (FRAMES.start.add(HUGE + 77), PageSize::Huge), "{}", F::NAME);
        assert!(translate(3, Access::Write, NoteUse::AsHardware).unwrap().accessed);
        for (page, access, why) in [
            (HUGE, Access::Write, NoTranslation::NotAllowed),
            (2 * HUGE + 5, Access::Read, NoTranslation::NotAllowed),
            (0, Access::Read, NoTranslation::NotPresent),
            (3 * HUGE, Access::Read, NoTranslation::NotPresent),
        ] {
            assert_eq!(translate(page, access, NoteUse::AsHardware), Err(why), "{}", F::NAME);
        }
        let part = range(base + 3, HUGE);
        let mut seen = Vec::new();
        let scan = mapper.scan_accessed(part, |pages, _| seen.push(pages)).unwrap();
        assert_eq!((scan.leaves, scan.accessed), (7, 2), "{}: what the range holds or cuts", F::NAME);
        assert_eq!(seen, [range(base + 3, 1), range(base + HUGE, HUGE)], "{}", F::NAME);

        let reading = rcu.read();
        let find = |pfn, from: u64, most| {
            let rest = range(base + from, 4 * HUGE - from);
            with_interrupts_off::<crate::machine::testing::TestCpu, _>(|| {
                find_frame(mapper.tree(), pfn, rest, most, &reading)
            })
        };
        let found =
            |page: u64, next: u64| FrameSearch { page: Some(Vpn(base + page)), next: Vpn(base + next) };
        assert_eq!(find(FRAMES.start.add(4), 0, u64::MAX), found(4, 5), "{}", F::NAME);
        assert_eq!(find(FRAMES.start.add(HUGE + 9), 0, u64::MAX), found(HUGE + 9, 2 * HUGE), "{}", F::NAME);
        assert_eq!(find(FRAMES.start, 0, u64::MAX), found(2 * HUGE + 5, 2 * HUGE + 6), "{}", F::NAME);
        // In pieces: the huge leaf is one entry.
        let first = find(FRAMES.start.add(HUGE + 9), 0, HUGE);
        assert_eq!(first, FrameSearch { page: None, next: Vpn(base + HUGE) }, "{}", F::NAME);
        assert_eq!(find(FRAMES.start.add(HUGE + 9), HUGE, 1), found(HUGE + 9, 2 * HUGE), "{}", F::NAME);
        assert_eq!(find(FRAMES.start.add(4), 5, u64::MAX).page, None, "{}", F::NAME);
        assert_eq!(find(Pfn(3), 0, 0), FrameSearch { page: None, next: Vpn(base) }, "{}", F::NAME);
    });
}

#[test]
fn scans_translations_and_searches_meet_every_kind_of_entry_in_every_format() {
    each_walker_meets_every_kind_of_entry::<TestFormat>(0x1_0000);
    each_walker_meets_every_kind_of_entry::<X86_64>(0);
    each_walker_meets_every_kind_of_entry::<X86_64La57>((1 << 52) - 0x1_0000);
    each_walker_meets_every_kind_of_entry::<Aarch64>(0x1_0000);
    each_walker_meets_every_kind_of_entry::<Sv39>(0x1_0000);
    each_walker_meets_every_kind_of_entry::<Sv57>(1 << 40);
    each_walker_meets_every_kind_of_entry::<Ept>(0x1_0000);
}

#[test]
fn a_walk_of_all_pages_passes_over_those_that_no_address_has() {
    with_memory::<X86_64>(|_, memory, rcu| {
        let mapper = Mapper::new(memory, rcu, |_| ()).unwrap();
        let last = Vpn((1 << 52) - 1);
        let upper = Vpn((1 << 52) - (1 << 35));
        for (page, frame) in [(Vpn(7), 1), (Vpn((1 << 35) - 1), 2), (upper, 3), (last, 4)] {
            mapper.map(page, &pfnmap(), frames(frame, 1), PageSize::Base, USER_RW).unwrap();
        }
        let everything = VpnRange { start: Vpn(0), end: Vpn(u64::MAX) };
        let mut seen = Vec::new();
        let reading = rcu.read();
        let scan = scan_accessed(mapper.tree(), everything, &reading, |pages, _| seen.push(pages.start));
        assert_eq!((scan.leaves, scan.accessed), (4, 4));
        assert_eq!(seen, [Vpn(7), Vpn((1 << 35) - 1), upper, last]);
        let find =
            |frame: u64| find_frame(mapper.tree(), FRAMES.start.add(frame), everything, u64::MAX, &reading);
        assert_eq!([1, 3, 4].map(|frame| find(frame).page), [seen[0], seen[2], seen[3]].map(Some));
        assert_eq!(find(9), FrameSearch { page: None, next: everything.end });
    });
}

#[test]
fn pages_that_a_format_does_not_translate_are_refused() {
    with_memory::<X86_64>(|_, memory, rcu| {
        let mapper = Mapper::new(memory, rcu, |_| ()).unwrap();
        for page in [Vpn(1 << 35), Vpn(1 << 47), Vpn(1 << 53), Vpn(u64::MAX)] {
            let refused = mapper.translate_access(page, Access::Read, NoteUse::AsHardware);
            assert_eq!(refused, Err(NoTranslation::OutOfRange), "{page:?}");
            let scan = mapper.scan_accessed(VpnRange { start: page, end: page }, |_, _| ());
            assert_eq!(scan, Err(MapError::OutOfRange), "{page:?}");
        }
    });
}
