//! Translations for emulators and for handlers, and searches for frames.

use crate::space::tests::world::base::{TestSpace, frame, leaf, load, map, page, store, with_space};
use crate::space::{Advice, MapBacking, MapRequest, Place, Sharing};
use crate::table::testing::pfnmap_nowhere;
use crate::table::{NoTranslation, NoteUse, StaleTranslation};
use crate::units::{Access, PageSize, Pfn, PfnRange, Rights, VirtAddr, Vpn, VpnRange};
use crate::vma::VmaFlags;

const HUGE: u64 = PageSize::Huge.pages();

fn translate(space: &TestSpace<'_>, nr: u64, access: Access) -> Result<StaleTranslation, NoTranslation> {
    space.walker().translate_access(page(nr), access, NoteUse::AsHardware, &space.vm().read())
}

fn forget_use(space: &TestSpace<'_>) {
    space.advise(page(0), 8 << 12, Advice::Free).unwrap();
    let all = VpnRange::new(page(0).vpn(), page(8).vpn());
    space.walker().scan_accessed(all, &space.vm().read(), |_, _| ());
}

#[test]
fn an_emulator_marks_pages_as_the_hardware_does_and_is_refused_what_needs_a_fault() {
    with_space(|vm, space| {
        map(&space, 0, 8);
        (0..4).for_each(|nr| store(&space, page(nr), 7));
        load(&space, page(4));
        space.protect(page(3), 1 << 12, VmaFlags::READ).unwrap();
        forget_use(&space);
        let bits = |nr: u64| leaf(&space, page(nr)).map(|leaf| (leaf.accessed, leaf.dirty));
        assert_eq!(bits(0), Some((false, false)));
        let only_asked =
            space.walker().translate_access(page(0), Access::Write, NoteUse::Leave, &vm.read()).unwrap();
        assert_eq!((only_asked.pfn, bits(0)), (frame(&space, page(0)), Some((false, false))));
        assert!(translate(&space, 0, Access::Read).unwrap().accessed);
        assert_eq!(bits(0), Some((true, false)));
        let stored = translate(&space, 0, Access::Write).unwrap();
        assert!(stored.accessed && stored.dirty && stored.owned && stored.size == PageSize::Base);
        assert_eq!(bits(0), Some((true, true)));
        assert_eq!(translate(&space, 3, Access::Write), Err(NoTranslation::NotAllowed));
        assert_eq!(translate(&space, 4, Access::Write), Err(NoTranslation::NotAllowed), "the zero page");
        assert!(!translate(&space, 4, Access::Read).unwrap().owned);
        assert_eq!(translate(&space, 5, Access::Read), Err(NoTranslation::NotPresent));
        let odd =
            space.walker().translate_access(VirtAddr(u64::MAX), Access::Read, NoteUse::Leave, &vm.read());
        assert_eq!(odd, Err(NoTranslation::OutOfRange));
    });
}

#[test]
fn a_handler_finds_what_an_address_leads_to_and_which_address_leads_to_a_frame() {
    with_space(|vm, space| {
        map(&space, 0, 8);
        (0..4).for_each(|nr| store(&space, page(nr), 7));
        space.protect(page(3), 1 << 12, VmaFlags::empty()).unwrap();
        let first = Pfn(1 << 24);
        let pfnmap = pfnmap_nowhere(PfnRange { start: first, end: first.add(HUGE) }, Rights::all());
        let request = MapRequest {
            place: Place::Fixed(page(HUGE)),
            sharing: Sharing::Shared,
            ..MapRequest::anonymous(HUGE << 12)
        };
        space
            .map(&request.backed_by(MapBacking::Pfn { frames: &pfnmap, first, largest: PageSize::Huge }))
            .unwrap();
        let section = vm.read_in_handler();
        let led = |nr: u64| space.walker().translate_in_handler(VirtAddr(page(nr).0 + 12), &section);
        assert_eq!(led(2).map(|it| it.pfn), Ok(frame(&space, page(2))));
        assert_eq!(led(3).map(|it| (it.pfn, it.rights)), Ok((frame(&space, page(3)), Rights::empty())));
        assert_eq!(led(HUGE + 9).map(|it| (it.pfn, it.size)), Ok((first.add(9), PageSize::Huge)));
        assert_eq!(led(6), Err(NoTranslation::NotPresent));
        let beyond = space.walker().translate_in_handler(VirtAddr(u64::MAX), &section);
        assert_eq!(beyond, Err(NoTranslation::OutOfRange));
        let everywhere = VpnRange { start: Vpn(0), end: Vpn(u64::MAX >> 12) };
        for nr in [1, 3, HUGE + 100] {
            let pfn = led(nr).unwrap().pfn;
            let found = space.walker().find_frame_in_handler(pfn, everywhere, u64::MAX, &section);
            assert_eq!(found.page, Some(page(nr).vpn()));
        }
        let none = space.walker().find_frame_in_handler(Pfn(1), everywhere, u64::MAX, &section);
        assert_eq!((none.page, none.next), (None, space.layout().areas.user.end));
        let (mut rest, mut pieces) = (everywhere, 0);
        let wanted = led(3).unwrap().pfn;
        let found = loop {
            let found = space.walker().find_frame_in_handler(wanted, rest, 2, &section);
            pieces += 1;
            if found.page.is_some() {
                break found.page;
            }
            rest.start = found.next;
        };
        assert!(pieces > 2 && found == Some(page(3).vpn()), "{pieces} pieces");
    });
}
