//! Huge pages that a fork has shared: which space has what, and how often each frame is mapped.

use crate::frame::{AllocRequest, Kind};
use crate::space::tests::world::PAGE;
use crate::space::tests::world::huge::{
    BASE, HUGE, THP, TestSpace, TestVm, at, counted, fault, is_huge, leaf, map, peek, resident, store,
    with_space,
};
use crate::space::tests::world::mishaps::each_allocation;
use crate::space::tests::world::pins::{Limit, slots};
use crate::space::{Advice, Counter, Error, Fault, FaultError};
use crate::units::{Access, Order, Pfn, Rights, Vpn};
use crate::vma::{FlagAdvice, VmaFlags};

const RW: VmaFlags = VmaFlags::READ.union(VmaFlags::WRITE);

fn byte_of(page: u64) -> u8 {
    (page % 251) as u8 + 1
}

/// Two huge pages, each page of which holds its number.
fn filled(space: &TestSpace<'_>) {
    map(space, 0, 2 * HUGE);
    (0..2 * HUGE).for_each(|page| store(space, page, byte_of(page)));
    assert!(is_huge(space, 0) && is_huge(space, HUGE));
}

/// Every page of the two holds its number, but where `changed` says otherwise: a byte, or nothing.
fn assert_holds(space: &TestSpace<'_>, changed: &[(u64, Option<u8>)]) {
    for page in 0..2 * HUGE {
        let change = changed.iter().find(|(changed, _)| *changed == page);
        assert_eq!(peek(space, page), change.map_or(Some(byte_of(page)), |change| change.1), "page {page}");
    }
}

fn head(space: &TestSpace<'_>, page: u64) -> Pfn {
    leaf(space, page).unwrap().0.pfn
}

/// Mapcount, refcount, order and *exclusive* of a frame's record.
fn record(vm: &TestVm<'_>, pfn: Pfn) -> (u32, u32, Order, bool) {
    let meta = vm.memory().meta(pfn).unwrap();
    (meta.mapcount(), meta.state().refcount(), meta.state().order(), meta.state().is_exclusive())
}

#[test]
fn a_fork_shares_huge_pages_whole_and_a_store_splits_for_its_own_space() {
    with_space(|vm, space| {
        filled(&space);
        let child = space.fork().unwrap();
        assert_eq!(counted(vm, THP), [2, 0, 0, 4]);
        let first = head(&space, 0);
        assert_eq!(record(vm, first), (2, 1, Order::HUGE, false));
        for side in [&space, &child] {
            assert!(is_huge(side, 0) && head(side, 0) == first);
            assert!(!leaf(side, 0).unwrap().0.rights.contains(Rights::WRITE));
            assert_holds(side, &[]);
            fault(side, 3, Access::Read);
        }
        let copied = || [Counter::CowCopied, Counter::PgReuse].map(|counter| vm.totals().get(counter));
        assert_eq!(copied(), [0, 0]);
        store(&child, 5, 99);
        assert!(!is_huge(&child, 5) && is_huge(&space, 5), "the other's leaf stays");
        assert_eq!((copied(), counted(vm, THP)), ([1, 0], [2, 0, 1, 3]));
        assert_eq!(vm.totals().get(Counter::ThpSplitPage), 1);
        for part in 0..HUGE {
            let entries = if part == 5 { 1 } else { 2 };
            assert_eq!(record(vm, first.add(part)), (entries, 1, Order::BASE, false), "part {part}");
        }
        assert_holds(&space, &[]);
        assert_holds(&child, &[(5, Some(99))]);
        // No other space has this frame any more, and all others.
        store(&space, 5, 98);
        assert_eq!((copied(), counted(vm, THP)), ([1, 1], [2, 0, 2, 2]));
        assert_eq!(vm.totals().get(Counter::ThpSplitPage), 1, "the folio was split before");
        store(&space, 6, 97);
        assert_eq!(copied(), [2, 1]);
        assert_holds(&space, &[(5, Some(98)), (6, Some(97))]);
        assert_holds(&child, &[(5, Some(99))]);
    });
}

#[test]
fn a_huge_page_that_nobody_else_has_any_more_is_written_in_place() {
    with_space(|vm, space| {
        filled(&space);
        let first = head(&space, 0);
        let child = space.fork().unwrap();
        let grandchild = child.fork().unwrap();
        assert_eq!(record(vm, first), (3, 1, Order::HUGE, false));
        drop(child);
        assert_eq!(record(vm, first), (2, 1, Order::HUGE, false));
        drop(space);
        assert_eq!(record(vm, first), (1, 1, Order::HUGE, false));
        store(&grandchild, 7, 1);
        assert!(is_huge(&grandchild, 7));
        assert_eq!(record(vm, first), (1, 1, Order::HUGE, true));
        let totals = vm.totals();
        assert_eq!([Counter::PgReuse, Counter::CowCopied].map(|counter| totals.get(counter)), [1, 0]);
        assert_eq!(counted(vm, THP), [2, 0, 0, 2]);
        assert_holds(&grandchild, &[(7, Some(1))]);
    });
}

/// Every frame that no entry maps is free at once, whichever space's leaves are huge.
#[test]
fn calls_on_a_part_leave_the_other_space_as_it_is() {
    type Call = fn(&TestSpace<'_>);
    // Whether the page is absent afterwards; else whether it keeps its frame.
    let calls: [(&str, Call, bool, bool); 6] = [
        ("unmap", |space| space.unmap(at(3), PAGE).unwrap(), true, false),
        ("discard", |space| space.advise(at(3), PAGE, Advice::DontNeed).unwrap(), true, false),
        ("protect", |space| space.protect(at(3), PAGE, VmaFlags::READ).unwrap(), false, true),
        ("free", |space| space.advise(at(3), PAGE, Advice::Free).unwrap(), false, true),
        (
            "pin",
            |space| drop(space.pin_pages(at(3), Access::Read, &Limit::new(9), slots(1)).unwrap()),
            false,
            false,
        ),
        ("store", |space| assert_eq!(space.copy_to(at(3), &[byte_of(3)]), Ok(1)), false, false),
    ];
    for (name, call, is_gone, is_kept) in calls {
        for caller in [0, 1] {
            with_space(|vm, space| {
                filled(&space);
                let child = space.fork().unwrap();
                let both = [&space, &child];
                let (acts, looks) = (both[caller], both[1 - caller]);
                call(acts);
                assert!(!is_huge(acts, 3) && is_huge(looks, 3), "{name}");
                assert!(is_huge(acts, HUGE), "{name}");
                assert_holds(acts, if is_gone { &[(3, None)] } else { &[] });
                assert_holds(looks, &[]);
                // The whole leaf of a split folio ends: what the other has stays.
                looks.unmap(at(0), HUGE * PAGE).unwrap();
                assert_holds(acts, if is_gone { &[(3, None)] } else { &[] });
                let first = head(acts, 0);
                assert_eq!(record(vm, first), (1, 1, Order::BASE, false), "{name}");
                let is_user = vm.memory().meta(first.add(3)).unwrap().state().kind() == Kind::User;
                assert_eq!(is_user, is_kept, "{name}: free once nobody maps it");
                vm.memory().check().unwrap();
            });
        }
    }
}

#[test]
fn a_leaf_of_a_split_folio_is_shared_again_and_ends_frame_by_frame() {
    with_space(|vm, space| {
        filled(&space);
        let first = head(&space, 0);
        let child = space.fork().unwrap();
        child.unmap(at(9), PAGE).unwrap();
        child.unmap(at(HUGE + 9), PAGE).unwrap();
        let second = space.fork().unwrap();
        assert!(is_huge(&space, 0) && is_huge(&second, 0));
        let counts = |part| record(vm, first.add(part)).0;
        assert_eq!([counts(0), counts(9), counts(HUGE - 1)], [3, 2, 3]);
        drop(child);
        assert_eq!([counts(0), counts(9), counts(HUGE - 1)], [2, 2, 2]);
        assert_holds(&second, &[]);
        store(&second, 9, 77);
        assert_eq!([counts(0), counts(9), counts(HUGE - 1)], [2, 1, 2]);
        drop(second);
        // Alone: the records are taken back, and the folio is written in place.
        let copied = || vm.totals().get(Counter::CowCopied);
        store(&space, 4, 44);
        assert!(is_huge(&space, 4));
        assert_eq!(record(vm, first), (1, 1, Order::HUGE, true));
        assert!((1..HUGE).all(|part| record(vm, first.add(part)).1 == 0));
        // Where there is another reference, each page is this space's by its own record.
        let other = head(&space, HUGE);
        let reference = vm.memory().try_get(other.add(300)).unwrap();
        store(&space, HUGE + 4, 45);
        assert!(!is_huge(&space, HUGE + 4));
        assert_eq!((copied(), head(&space, HUGE + 4)), (1, other.add(4)));
        assert_eq!(record(vm, other.add(4)), (1, 1, Order::BASE, true));
        assert_eq!(record(vm, other.add(5)), (1, 1, Order::BASE, false));
        drop(reference);
        assert_holds(&space, &[(4, Some(44)), (HUGE + 4, Some(45))]);
        space.unmap(at(0), 2 * HUGE * PAGE).unwrap();
    });
}

#[test]
fn whole_shared_leaves_are_protected_and_discarded_whole() {
    with_space(|vm, space| {
        filled(&space);
        let child = space.fork().unwrap();
        let running = child.activate(None);
        child.protect(at(0), 2 * HUGE * PAGE, VmaFlags::READ).unwrap();
        child.protect(at(0), 2 * HUGE * PAGE, RW).unwrap();
        assert!(!leaf(&child, 0).unwrap().0.rights.contains(Rights::WRITE), "the folio is shared");
        child.advise(at(0), 2 * HUGE * PAGE, Advice::Free).unwrap();
        assert_eq!(counted(vm, THP), [2, 0, 0, 4]);
        // More leaves than a gather has places for.
        child.advise(at(0), 2 * HUGE * PAGE, Advice::DontNeed).unwrap();
        assert_eq!(counted(vm, THP), [2, 0, 0, 2]);
        assert_eq!(resident(&child, 2 * HUGE), 0);
        drop(running);
        assert_holds(&space, &[]);
        store(&space, 0, 1);
        assert!(is_huge(&space, 0), "nobody else has it");
    });
}

#[test]
fn leaves_that_a_fork_cannot_share_whole_are_split() {
    with_space(|vm, space| {
        filled(&space);
        // One lies in two mappings, to the other there is a reference for a moment.
        space.advise(at(7), 9 * PAGE, Advice::Flag(FlagAdvice::DontDump)).unwrap();
        let reference = vm.memory().try_get(head(&space, HUGE)).unwrap();
        let child = space.fork().unwrap();
        drop(reference);
        for side in [&space, &child] {
            assert!(!is_huge(side, 0) && !is_huge(side, HUGE));
            assert_holds(side, &[]);
        }
        assert_eq!(counted(vm, THP), [2, 0, 2, 0]);
    });
}

#[test]
fn advice_keeps_a_huge_page_from_the_child() {
    with_space(|vm, space| {
        filled(&space);
        space.advise(at(0), HUGE * PAGE, Advice::Flag(FlagAdvice::DontFork)).unwrap();
        space.advise(at(HUGE), HUGE * PAGE, Advice::Flag(FlagAdvice::WipeOnFork)).unwrap();
        let child = space.fork().unwrap();
        assert_eq!((resident(&child, 2 * HUGE), counted(vm, THP)), (0, [2, 0, 0, 2]));
        assert_eq!(record(vm, head(&space, 0)), (1, 1, Order::HUGE, true));
    });
}

/// A private page that may only be read is written by a debugger, and dropped by the program: the write never
/// reaches what the other space has (the pattern of Dirty COW).
#[test]
fn a_forced_store_beside_dontneed_never_reaches_the_other_space() {
    for writer in [0, 1] {
        with_space(|_, space| {
            filled(&space);
            space.protect(at(0), 2 * HUGE * PAGE, VmaFlags::READ).unwrap();
            let child = space.fork().unwrap();
            let both = [&space, &child];
            let (writes, other) = (both[writer], both[1 - writer]);
            for (round, page) in [(0, 3), (1, 3), (2, HUGE - 1)] {
                writes.copy_to_forced(at(page), &[200 + round]).unwrap();
                assert_eq!(peek(writes, page), Some(200 + round));
                assert!(is_huge(other, page), "the other's leaf stays");
                assert_holds(other, &[]);
                writes.advise(at(page), PAGE, Advice::DontNeed).unwrap();
                fault(writes, page, Access::Read);
                assert_eq!(peek(writes, page), Some(0), "what is dropped does not come back");
            }
            let mut bytes = [0];
            other.copy_from(at(3), &mut bytes).unwrap();
            assert_eq!(bytes[0], byte_of(3));
            assert_holds(other, &[]);
        });
    }
}

/// As the kernel runs it: both proofs, a fault that finds no table prepared gives up by name.
#[test]
fn a_store_to_a_shared_huge_page_gives_up_by_name_and_copies_next() {
    use crate::space::fault::{Fallback, Locked, Prepared, Speculated};
    with_space(|vm, space| {
        filled(&space);
        let child = space.fork().unwrap();
        let store = Fault { addr: at(3), access: Access::Write };
        let mut prepared = Prepared::new(vm);
        assert_eq!(child.faults().attempt(store, &Speculated, &mut prepared), Err(Fallback::HugeShared));
        assert!(!is_huge(&child, 3));
        assert_eq!(child.faults().attempt(store, &Speculated, &mut prepared), Ok(()));
        let second = Fault { addr: at(HUGE), access: Access::Write };
        let guard = child.faults().read_lock_page(second.addr.vpn(), false);
        let locked = Locked::new(&guard);
        assert_eq!(child.faults().attempt(second, &locked, &mut prepared), Err(Fallback::HugeShared));
        assert_eq!(child.faults().attempt(second, &locked, &mut prepared), Ok(()));
        drop(guard);
        assert_holds(&space, &[]);
        assert_eq!(vm.totals().get(Counter::CowCopied), 2);
    });
}

#[test]
fn a_store_to_a_shared_huge_page_waits_for_a_fork_that_has_passed() {
    use crate::space::fault::{Fallback, Prepared, Speculated};
    with_space(|vm, space| {
        filled(&space);
        let child = space.fork().unwrap();
        let store = Fault { addr: at(3), access: Access::Write };
        let under_way = space.entries.fork.begin();
        under_way.advance(Vpn(BASE + HUGE));
        let result = space.faults().attempt(store, &Speculated, &mut Prepared::new(vm));
        assert_eq!(result, Err(Fallback::Forking));
        drop(under_way);
        assert!(is_huge(&space, 3) && is_huge(&child, 3));
    });
}

/// Every allocation of a store that splits and copies, and of a fork of huge pages, fails in turn.
#[test]
fn a_lack_of_memory_leaves_both_spaces_with_what_they_had() {
    type Call = fn(&TestSpace<'_>) -> Result<(), Error>;
    let calls: [(&str, Call); 3] = [
        ("store", |space| {
            let fault = Fault { addr: at(3), access: Access::Write };
            space.fault(fault).map(drop).map_err(|_| Error::NoMemory)
        }),
        ("fork", |space| space.fork().map(drop)),
        ("unmap", |space| space.unmap(at(3), HUGE * PAGE)),
    ];
    for (name, call) in calls {
        let allocations = each_allocation(|nth| {
            let mut has_struck = false;
            with_space(|vm, space| {
                filled(&space);
                let child = space.fork().unwrap();
                vm.memory().plan_mishap(nth);
                let result = call(&space);
                has_struck = !vm.memory().is_mishap_planned();
                vm.memory().plan_mishap(0);
                if result.is_err() || name != "unmap" {
                    assert_holds(&space, &[]);
                }
                assert_holds(&child, &[]);
                vm.memory().check().unwrap();
            });
            has_struck
        });
        assert!(allocations > 0, "{name} allocates");
    }
}

#[test]
fn a_store_without_memory_ends_with_an_error_and_the_next_one_copies() {
    with_space(|vm, space| {
        filled(&space);
        let child = space.fork().unwrap();
        let hog: std::vec::Vec<_> =
            core::iter::from_fn(|| vm.memory().alloc_frame(AllocRequest::DIRTY)).collect();
        assert!(hog.len() > 9);
        let store_to = Fault { addr: at(3), access: Access::Write };
        assert_eq!(child.fault(store_to), Err(FaultError::NoMemory));
        for side in [&space, &child] {
            assert_holds(side, &[]);
        }
        drop(hog);
        store(&child, 3, 1);
        assert_holds(&child, &[(3, Some(1))]);
        assert_holds(&space, &[]);
        assert!(is_huge(&space, 3));
    });
}
