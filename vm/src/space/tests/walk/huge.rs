//! Walks without a lock through huge pages.

use crate::space::tests::world::huge::{BASE, HUGE, at, byte_of, filled, leaf, map, with_space};
use crate::space::tests::world::zero::{is_by_table, load, with_table};
use crate::table::NoteUse;
use crate::units::{Access, PageSize, Rights, Vpn, VpnRange};

/// A handler reads the frame of the page, inside of the folio.
#[test]
fn a_handler_reads_a_word_of_each_page_of_a_huge_page() {
    with_space(|vm, space| {
        filled(&space);
        let running = space.activate(None);
        for page in [0, 1, 77, HUGE - 1, HUGE, 2 * HUGE - 1] {
            let word = space.walker().read_word_in_handler(at(page), &vm.read_in_handler());
            assert_eq!(word.map(|word| word as u8), Ok(byte_of(page)), "page {page}");
        }
        drop(running);
    });
}

#[test]
fn a_page_leads_to_the_zero_page_and_to_no_frame_of_the_table() {
    with_table(|vm, space| {
        map(&space, 0, HUGE);
        load(&space, 3);
        let table = leaf(&space, 3).unwrap().0.pfn;
        let reading = vm.read();
        for page in [0, 3, HUGE - 1] {
            let led = space
                .walker()
                .translate_access(at(page), Access::Read, NoteUse::AsHardware, &reading)
                .unwrap();
            assert_eq!((led.pfn, led.size, led.owned), (vm.memory().zero_frame(), PageSize::Base, false));
            assert!(!led.rights.contains(Rights::WRITE));
            let write =
                space.walker().translate_access(at(page), Access::Write, NoteUse::AsHardware, &reading);
            assert!(write.is_err());
        }
        drop(reading);
        let section = vm.read_in_handler();
        let all = VpnRange::new(Vpn(BASE), Vpn(BASE + HUGE));
        let find = |pfn| space.walker().find_frame_in_handler(pfn, all, 100, &section).page;
        assert_eq!(find(vm.memory().zero_frame()), Some(Vpn(BASE)));
        assert_eq!([table, table.add(1)].map(find), [None; 2]);
    });
}

#[test]
fn a_scan_of_accessed_bits_clears_that_of_the_slot_and_none_of_the_table() {
    with_table(|vm, space| {
        map(&space, 0, HUGE);
        load(&space, 3);
        let all = VpnRange::new(Vpn(BASE), Vpn(BASE + HUGE));
        let scan = space.walker().scan_accessed(all, &vm.read(), |pages, _| assert_eq!(pages, all));
        assert_eq!((scan.leaves, scan.accessed), (1, 1));
        assert!(is_by_table(&space, 3) && !leaf(&space, 3).unwrap().0.accessed);
        let again = space.walker().scan_accessed(all, &vm.read(), |_, _| ());
        assert_eq!((again.leaves, again.accessed), (1, 0));
    });
}
