//! MADV_WILLNEED asks the pager, and waits for nothing.

use crate::object::PageAnswer;
use crate::space::tests::world::PAGE;
use crate::space::tests::world::disk::{Event, open, with_disk};
use crate::space::tests::world::object::{PRIVATE, SHARED, at, leaf, load, map};
use crate::space::*;

#[test]
fn pages_that_will_be_needed_are_the_objects_and_mapped_by_none() {
    with_disk(8, |vm, space, disk| {
        let file = open(vm);
        (0..8).for_each(|page| disk.put(page, page as u8 + 1));
        map(&space, &file, (SHARED, 8), Sharing::Shared);
        map(&space, &file, (PRIVATE, 8), Sharing::Private);
        let will_need = |page, pages| space.advise(at(page), pages * PAGE, Advice::WillNeed);
        assert_eq!(will_need(SHARED + 1, 3), Ok(()));
        assert_eq!(disk.events(), [Event::Read(1), Event::Read(2), Event::Read(3)]);
        assert!((0..8).all(|page| leaf(&space, SHARED + page).is_none()));
        // What is there is not asked for again, of whatever mapping.
        assert_eq!(will_need(PRIVATE, 5), Ok(()));
        assert_eq!(disk.events(), [Event::Read(0), Event::Read(4)]);
        assert_eq!((load(&space, SHARED + 2), disk.events()), (3, std::vec![]));
        // A hole is told at the end; no page lies beyond the file's.
        assert_eq!(will_need(SHARED + 6, 8), Err(Error::NoMemory));
        assert_eq!(disk.events(), [Event::Read(6), Event::Read(7)]);
        assert_eq!(space.advise(at(30), PAGE, Advice::WillNeed), Err(Error::NoMemory));
    });
}

#[test]
fn a_page_that_is_late_is_not_waited_for_and_one_that_fails_ends_it() {
    with_disk(8, |vm, space, disk| {
        let file = open(vm);
        map(&space, &file, (SHARED, 8), Sharing::Shared);
        disk.answer(1, &[PageAnswer::NotReady]);
        disk.answer(3, &[PageAnswer::Error]);
        assert_eq!(space.advise(at(SHARED), 8 * PAGE, Advice::WillNeed), Ok(()));
        assert_eq!(disk.events(), [0, 1, 2, 3].map(Event::Read));
        // The fault asks for it again, and finds it ready.
        assert_eq!((load(&space, SHARED + 1), disk.events()), (0, std::vec![Event::Read(1)]));
        assert_eq!((load(&space, SHARED + 2), disk.events()), (0, std::vec![]));
    });
}
