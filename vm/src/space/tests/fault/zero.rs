//! The huge zero page: what maps it, what replaces and splits it, and that every byte of it stays zero.

use crate::machine::Cpu;
use crate::machine::testing::TestCpu;
use crate::space::tests::world::huge::{
    BASE, HUGE, THP, TestSpace, at, counted, is_huge, leaf, map, peek, resident, store, with_policies,
};
use crate::space::tests::world::zero::{ZERO, is_small_zero, is_zero, load, with_the_page, with_zero};
use crate::space::tests::world::{PAGE, space_of};
use crate::space::{AddressSpace, Advice, Fault, Path};
use crate::units::{Access, Rights, Vpn};
use crate::vma::{HugePolicy, ZeroPagePolicy};
use std::vec::Vec;

#[test]
fn loads_of_untouched_memory_map_one_page_and_no_table_below() {
    for path in Path::ALL {
        with_the_page(|vm, space| {
            let space = AddressSpace::new(vm, *space.layout(), path).unwrap();
            map(&space, 0, 8 * HUGE);
            let before = vm.memory().stats().allocated();
            let outcomes: Vec<_> = (0..8)
                .map(|nth| space.fault(Fault { addr: at(nth * HUGE + nth), access: Access::Read }).unwrap())
                .collect();
            // Only the first waits, for the page; it has tried again without the space's lock.
            assert!(outcomes.iter().all(|outcome| *outcome == path.outcome()), "{outcomes:?}");
            assert!((0..8).all(|nth| is_zero(&space, nth * HUGE + 99)));
            let (first, _) = leaf(&space, 0).unwrap();
            assert!(
                vm.memory().zero_pages().is_huge_zero(first.pfn)
                    && first.rights == Rights::READ | Rights::USER
            );
            assert_eq!((leaf(&space, 7 * HUGE).unwrap().0.pfn, counted(vm, ZERO)), (first.pfn, [1, 0, 0, 0]));
            assert!(vm.memory().stats().allocated() - before <= 512 + 3);
            let mut visited = 0;
            space.mincore(at(0), 8 * HUGE * PAGE, |_, resident| visited += u64::from(resident)).unwrap();
            assert_eq!(visited, 8 * HUGE, "as Linux says");
            assert_eq!(space.inspect().resident_frame(Vpn(BASE + 777)).unwrap().0, vm.memory().zero_frame());
        });
    }
}

#[test]
fn it_is_one_for_all_spaces_goes_with_the_last_and_comes_back() {
    with_the_page(|vm, space| {
        let other = space_of(vm);
        for space in [&space, &other] {
            map(space, 0, 2 * HUGE);
            load(space, 3);
            load(space, HUGE);
        }
        assert_eq!(counted(vm, ZERO), [1, 0, 0, 0]);
        drop(other);
        vm.trim();
        assert_eq!(
            (vm.memory().zero_pages().huge_frames(), peek(&space, 3)),
            (512, Some(0)),
            "a space uses it"
        );
        drop(space);
        assert_eq!(
            vm.memory().zero_pages().huge_frames(),
            0,
            "it was asked for, and went with the last space"
        );
        let space = space_of(vm);
        map(&space, 0, HUGE);
        load(&space, 3);
        assert_eq!(counted(vm, ZERO), [2, 0, 0, 0]);
    });
}

#[test]
fn a_store_replaces_it_by_a_huge_page() {
    for path in Path::ALL {
        with_zero(|vm, space| {
            let space = AddressSpace::new(vm, *space.layout(), path).unwrap();
            map(&space, 0, 2 * HUGE);
            load(&space, 3);
            load(&space, HUGE);
            store(&space, 5, 7);
            assert!(is_huge(&space, 0) && leaf(&space, 0).unwrap().0.owned() && is_zero(&space, HUGE));
            assert_eq!(
                (peek(&space, 5), peek(&space, 6), peek(&space, HUGE + 5)),
                (Some(7), Some(0), Some(0))
            );
            assert_eq!(counted(vm, ZERO), [1, 0, 0, 1]);
            assert_eq!(counted(vm, THP)[0], 1);
        });
    }
}

#[test]
fn no_cpu_reads_zeros_after_a_store_or_keeps_a_large_translation_after_a_split() {
    let edits: [&(dyn Fn(&TestSpace<'_>) + Sync); 3] =
        [&|space| store(space, 5, 7), &|space| space.unmap(at(3), PAGE).unwrap(), &|space| {
            space.advise(at(0), HUGE * PAGE, Advice::DontNeed).unwrap()
        }];
    for (nth, edit) in edits.into_iter().enumerate() {
        with_zero(|vm, space| {
            let machine = vm.machine();
            map(&space, 0, HUGE);
            load(&space, 0);
            machine.run_as(1);
            let running = space.activate(None);
            assert!(machine.translate(Vpn(BASE + 9), Access::Read).is_some());
            std::thread::scope(|scope| {
                let editing = scope.spawn(|| {
                    machine.run_as(0);
                    edit(&space);
                });
                while !editing.is_finished() {
                    TestCpu::relax();
                }
            });
            assert!(
                !machine.has_cached(1, Vpn(BASE + 9)),
                "edit {nth}: what is cached is not there any more"
            );
            drop(running);
            machine.run_as(0);
        });
    }
}

#[test]
fn without_a_block_a_store_leaves_small_zero_pages_around_it() {
    with_zero(|vm, space| {
        map(&space, 0, HUGE);
        load(&space, 3);
        // All other folios of 2 MiB are in use.
        let taken: Vec<_> = core::iter::from_fn(|| {
            vm.memory().alloc(crate::units::Order::HUGE, crate::frame::AllocRequest::DIRTY)
        })
        .collect();
        store(&space, 5, 7);
        assert!((0..HUGE).filter(|&page| page != 5).all(|page| is_small_zero(&space, page)));
        assert_eq!((peek(&space, 5), peek(&space, 6), resident(&space, HUGE)), (Some(7), Some(0), HUGE));
        assert_eq!(counted(vm, ZERO), [1, 0, 1, 0]);
        drop(taken);
    });
}

#[test]
fn without_memory_for_it_a_load_gets_the_small_one() {
    with_the_page(|vm, space| {
        map(&space, 0, 2 * HUGE);
        let taken: Vec<_> = core::iter::from_fn(|| {
            vm.memory().alloc(crate::units::Order::HUGE, crate::frame::AllocRequest::DIRTY)
        })
        .collect();
        load(&space, 3);
        assert!(is_small_zero(&space, 3) && leaf(&space, 4).is_none());
        assert_eq!(counted(vm, ZERO), [0, 1, 0, 0]);
        drop(taken);
        // Where there is a table it stays; elsewhere there is memory for it now.
        load(&space, 4);
        load(&space, HUGE + 4);
        assert!(is_small_zero(&space, 4) && is_zero(&space, HUGE));
        assert_eq!(counted(vm, ZERO), [1, 1, 0, 0]);
    });
}

#[test]
fn the_other_policies_map_small_zero_pages_or_memory() {
    for (policy, expected) in [(ZeroPagePolicy::Small, (1, 0)), (ZeroPagePolicy::None, (512, 1))] {
        with_policies(10 * HUGE, (HugePolicy::Always, policy), |vm, space| {
            map(&space, 0, HUGE);
            load(&space, 3);
            assert_eq!((resident(&space, HUGE), counted(vm, THP)[0]), expected);
            assert!(
                leaf(&space, 3).is_some_and(|(leaf, _)| leaf.owned() == (policy == ZeroPagePolicy::None))
            );
            assert_eq!(counted(vm, ZERO)[0], 0);
        });
    }
    with_policies(10 * HUGE, (HugePolicy::Never, ZeroPagePolicy::Huge), |vm, space| {
        map(&space, 0, HUGE);
        load(&space, 3);
        assert!(is_small_zero(&space, 3) && counted(vm, ZERO) == [0; 4]);
    });
}

#[test]
fn an_allocation_refused_anywhere_changes_nothing_but_the_kind_of_page() {
    for nth in 1..12 {
        with_zero(|vm, space| {
            map(&space, 0, 2 * HUGE);
            vm.memory().plan_mishap(nth);
            let loaded = space.fault(Fault { addr: at(3), access: Access::Read });
            let stored = space.fault(Fault { addr: at(4), access: Access::Write });
            let child = space.fork();
            let unmapped = space.unmap(at(7), PAGE);
            vm.memory().plan_mishap(0);
            assert!(peek(&space, 3).is_none_or(|byte| byte == 0), "mishap {nth}");
            assert!(loaded.is_ok() || peek(&space, 3).is_none() || stored.is_ok(), "mishap {nth}");
            assert_eq!(unmapped.is_ok(), space.fault(Fault { addr: at(7), access: Access::Read }).is_err());
            drop(child);
            store(&space, 3, 1);
            assert_eq!((peek(&space, 3), peek(&space, 8).unwrap_or(0)), (Some(1), 0));
        });
    }
}

/// As of untouched memory: what was refused since is not brought by a store.
#[test]
fn a_store_brings_no_huge_page_where_those_were_refused_meanwhile() {
    with_zero(|vm, space| {
        map(&space, 0, HUGE);
        load(&space, 3);
        space.set_thp_disable(crate::vma::ThpDisable::Completely);
        store(&space, 5, 7);
        assert!(is_small_zero(&space, 3) && !is_huge(&space, 5));
        assert_eq!((peek(&space, 5), counted(vm, ZERO)), (Some(7), [1, 0, 1, 0]));
    });
}
