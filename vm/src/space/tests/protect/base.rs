//! mprotect of base pages: rights that are refused, changes that end half way, and what an entry keeps.

use crate::space::tests::world::bounded::{
    PAGE, TestSpace, leaf, map, mappings, page, ranges, set_flags, with_space, write,
};
use crate::space::{Advice, Error, Misplaced};
use crate::vma::{FlagAdvice, PolicyMode, PolicyRequest, VmaFlags};

#[test]
fn rights_that_a_mapping_may_not_have_are_refused_with_eacces() {
    with_space(100, |space| {
        map(space, 0, 4);
        set_flags(space, page(0), VmaFlags::READ | VmaFlags::MAY_READ | VmaFlags::MAY_EXECUTE);
        let before = mappings(space);
        for wanted in [VmaFlags::WRITE, VmaFlags::READ | VmaFlags::WRITE] {
            assert_eq!(space.protect(page(1), 2 * PAGE, wanted), Err(Error::Access));
        }
        assert_eq!(mappings(space), before);
        space.protect(page(1), 2 * PAGE, VmaFlags::READ | VmaFlags::EXECUTE).unwrap();
    });
}

#[test]
fn a_page_stays_dirty_whatever_rights_it_loses_and_gets_back() {
    with_space(100, |space| {
        map(space, 0, 1);
        write(space, page(0));
        let both = VmaFlags::READ | VmaFlags::WRITE;
        for rights in [VmaFlags::READ, VmaFlags::empty(), VmaFlags::READ, both | VmaFlags::EXECUTE] {
            space.protect(page(0), PAGE, rights).unwrap();
            let leaf = leaf(space, page(0).vpn()).unwrap();
            assert!(leaf.dirty && leaf.accessed, "{rights:?}: {leaf:?}");
        }
    });
}

/// A change that needs two splits where one mapping may be added keeps the first, as in Linux; where none may
/// be, it changes nothing.
#[test]
fn a_change_that_is_refused_at_its_second_split_keeps_the_first() {
    type Call = fn(&TestSpace<'_>) -> Result<(), Error>;
    let calls: [(Call, Error); 3] = [
        (|space| space.protect(page(1), 2 * PAGE, VmaFlags::READ), Error::NoMemory),
        (|space| space.advise(page(1), 2 * PAGE, Advice::Flag(FlagAdvice::Random)), Error::Again),
        (
            |space| {
                let policy = PolicyRequest::of(PolicyMode::Bind, 1);
                space.set_policy(page(1), 2 * PAGE, policy, Misplaced::Keep)
            },
            Error::NoMemory,
        ),
    ];
    for (call, error) in calls {
        for (most, left) in [(1, 0..4), (2, 0..1), (3, 0..1)] {
            with_space(most, |space| {
                map(space, 0, 4);
                write(space, page(0));
                let flags = space.inspect().vma_at(page(0)).unwrap().flags;
                assert_eq!(call(space), if most == 3 { Ok(()) } else { Err(error) });
                assert_eq!((mappings(space).len(), ranges(space)[0].clone()), (most, left));
                let unchanged = mappings(space).iter().all(|vma| vma.flags == flags);
                assert!(most == 3 || unchanged, "halves that are alike");
                assert!(leaf(space, page(0).vpn()).is_some());
            });
        }
    }
}
