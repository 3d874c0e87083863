//! madvise of base pages: what is refused, and what was done before.

use crate::space::tests::world::bounded::{PAGE, leaf, map, page, ranges, set_flags, with_space, write};
use crate::space::{Advice, Error, MapRequest, Place};
use crate::vma::{FlagAdvice, VmaFlags};

#[test]
fn locked_memory_is_not_dropped() {
    with_space(100, |space| {
        map(space, 0, 4);
        (0..4).for_each(|nr| write(space, page(nr)));
        let flags = space.inspect().vma_at(page(0)).unwrap().flags;
        set_flags(space, page(0), flags | VmaFlags::LOCKED);
        let frame = leaf(space, page(1).vpn());
        for advice in [Advice::DontNeed, Advice::Free, Advice::Cold] {
            assert_eq!(space.advise(page(1), PAGE, advice), Err(Error::Invalid));
        }
        assert_eq!(leaf(space, page(1).vpn()), frame);
        assert_eq!(space.advise(page(1), PAGE, Advice::WillNeed), Ok(()));
    });
}

/// Of several mappings those before the refusal have changed.
#[test]
fn mappings_before_one_that_may_not_be_split_have_changed() {
    with_space(4, |space| {
        map(space, 0, 2);
        space.protect(page(0), PAGE, VmaFlags::READ).unwrap();
        map(space, 2, 3);
        assert_eq!(ranges(space), [0..1, 1..5]);
        let request = MapRequest { place: Place::Fixed(page(7)), ..MapRequest::anonymous(PAGE) };
        space.map(&request).unwrap();
        space.map(&MapRequest { place: Place::Fixed(page(9)), ..request }).unwrap();
        let advise = |advice| space.advise(page(0), 4 * PAGE, Advice::Flag(advice));
        assert_eq!(advise(FlagAdvice::DontDump), Err(Error::Again));
        assert_eq!(ranges(space), [0..1, 1..5, 7..8, 9..10]);
        let has = |nr| space.inspect().vma_at(page(nr)).unwrap().flags.contains(VmaFlags::DONT_DUMP);
        assert!(has(0) && !has(1));
    });
}

/// Advice that is refused at a locked part has dropped what lies before it.
#[test]
fn contents_before_a_locked_part_are_dropped() {
    with_space(100, |space| {
        map(space, 0, 4);
        space.protect(page(2), PAGE, VmaFlags::READ).unwrap();
        space.protect(page(2), PAGE, VmaFlags::READ | VmaFlags::WRITE).unwrap();
        map(space, 8, 2);
        let flags = space.inspect().vma_at(page(8)).unwrap().flags;
        set_flags(space, page(8), flags | VmaFlags::LOCKED);
        let present = || [0, 1, 8, 9].map(|nr| leaf(space, page(nr).vpn()).is_some());
        [0, 1, 8, 9].iter().for_each(|&nr| write(space, page(nr)));
        assert_eq!(space.advise(page(0), 10 * PAGE, Advice::DontNeed), Err(Error::Invalid));
        assert_eq!(present(), [false, false, true, true]);
        assert_eq!(space.advise(page(8), 2 * PAGE, Advice::DontNeedLocked), Ok(()));
        assert_eq!(present(), [false; 4]);
    });
}
