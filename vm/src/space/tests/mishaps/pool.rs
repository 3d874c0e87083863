//! Every allocation of a call fails in turn: nothing that was set aside is lost.

use crate::space::tests::world::mishaps::each_allocation;
use crate::space::tests::world::pins::{Limit, slots};
use crate::space::tests::world::pool::{
    BYTES, TestSpace, TestVm, at, fault, map, map_shared, map_unreserved, peek, store, take_back, try_map,
    try_map_shared, with_pool,
};
use crate::space::{Error, FaultError, Outcome};
use crate::units::{Access, PageSize};
use crate::vma::VmaFlags;

type Call = fn(&TestVm<'_>, &TestSpace<'_>) -> Result<(), Error>;

fn as_error(result: Result<Outcome, FaultError>) -> Result<(), Error> {
    match result {
        Ok(_) => Ok(()),
        Err(FaultError::NoMemory) => Err(Error::NoMemory),
        Err(error) => panic!("{error}"),
    }
}

const CALLS: [(&str, Call); 13] = [
    ("map", |_, space| try_map(space, 1024, 2)),
    ("map shared", |_, space| try_map_shared(space, 4096, 2)),
    ("fault in shared memory", |_, space| as_error(fault(space, 3073, Access::Write))),
    ("map over", |_, space| try_map(space, 1, 2)),
    ("unmap", |_, space| space.unmap(at(1), BYTES)),
    ("protect", |_, space| space.protect(at(1), BYTES, VmaFlags::READ)),
    ("fork", |_, space| space.fork().map(drop)),
    ("fork and copy of a pinned page", |_, space| {
        let limit = Limit::new(9);
        let _pinned = space.pin_pages(at(1), Access::Write, &limit, slots(1))?;
        space.fork().map(|child| assert_eq!(peek(&child, 1), Some(2)))
    }),
    ("fork, and a store of the child", |_, space| {
        let child = space.fork()?;
        as_error(fault(&child, 0, Access::Write))
    }),
    ("fork, and a store of the parent", |_, space| {
        let child = space.fork()?;
        let stored = as_error(fault(space, 0, Access::Write));
        assert_eq!(peek(&child, 0), Some(1));
        stored
    }),
    ("fork, and a page taken back", |_, space| {
        let child = space.fork()?;
        assert_eq!(take_back(space, 0, &[space, &child]), Ok(true));
        as_error(fault(space, 0, Access::Write))
    }),
    ("fault", |_, space| as_error(fault(space, 2048, Access::Write))),
    ("store by another", |_, space| space.copy_to(at(2048), &[3]).map(drop)),
];

#[test]
fn a_lack_of_memory_loses_no_page_of_the_pool() {
    for (name, call) in CALLS {
        let allocations = each_allocation(|nth| {
            let mut has_struck = false;
            with_pool(8, |vm, space| {
                map(&space, 0, 3);
                (0..2).for_each(|page| store(&space, page, page as u8 + 1));
                // No table is there yet.
                map_unreserved(&space, 2048, 1);
                map_shared(&space, 3072, 2);
                vm.memory().plan_mishaps(nth, 8);
                let result = call(vm, &space);
                has_struck = !vm.memory().is_mishap_planned();
                vm.memory().plan_mishap(0);
                if has_struck && result.is_err() {
                    assert_eq!(result, Err(Error::NoMemory), "{name}, allocation {nth}");
                } else {
                    assert_eq!(result, Ok(()), "{name}, allocation {nth}");
                }
                vm.memory().check().unwrap();
                assert_eq!(peek(&space, 0), Some(1));
                space.inspect().check_index().unwrap();
            });
            has_struck
        });
        assert!(allocations > 0, "{name} allocates");
    }
}

#[test]
fn a_pool_gets_what_can_be_allocated() {
    with_pool(1, |vm, _space| {
        vm.memory().plan_mishap(2);
        let counts = vm.resize_hugetlb(PageSize::Huge, 3);
        assert_eq!(counts.total, 3, "tried once more");
        vm.memory().plan_mishaps_from(1);
        assert_eq!(vm.resize_hugetlb(PageSize::Huge, 5).total, 3);
        vm.memory().plan_mishap(0);
        vm.resize_hugetlb(PageSize::Huge, 1);
    });
}
