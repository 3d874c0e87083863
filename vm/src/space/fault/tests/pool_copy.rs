//! A copy of a page of the hugetlb pool is kept from attempt to attempt: for that page only.

use crate::machine::testing::TestMachine;
use crate::space::fault::Fallback;
use crate::space::fault::attempt::Speculated;
use crate::space::fault::prepared::Prepared;
use crate::space::tests::world::{boot_map, space_of};
use crate::space::{Fault, FaultError, MapBacking, MapRequest, Vm};
use crate::units::{Access, PageSize, VirtAddr};
use std::vec::Vec;

const BYTES: u64 = PageSize::Huge.bytes();

#[test]
fn a_copy_of_one_page_of_the_pool_is_not_installed_over_another() {
    let machine = TestMachine::with_cpus(7 * PageSize::Huge.pages(), 1);
    let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
    vm.resize_hugetlb(PageSize::Huge, 4);
    {
        let space = space_of(&vm);
        let base = space
            .map(&MapRequest::anonymous(2 * BYTES).backed_by(MapBacking::Hugetlb(PageSize::Huge)))
            .unwrap();
        let store = |page: u64| Fault { addr: VirtAddr(base.0 + page * BYTES), access: Access::Write };
        for page in [0, 1] {
            space.fault(store(page)).unwrap();
        }
        let frame = |page| space.inspect().resident_frame(store(page).addr.vpn()).unwrap().0;
        let before = [frame(0), frame(1)];
        let child = space.fork().unwrap();
        let mut prepared = Prepared::new(&vm);
        let try_once = |page, prepared: &mut _| space.faults().attempt(store(page), &Speculated, prepared);
        // The first page is shared: what the next attempt needs is a copy of it.
        assert_eq!(try_once(0, &mut prepared), Err(Fallback::Unprepared));
        space.entries.bring(&mut prepared);
        // But that is of the second page, which needs one of its own.
        assert_eq!(try_once(1, &mut prepared), Err(Fallback::Unprepared));
        assert_eq!([frame(0), frame(1)], before);
        space.entries.bring(&mut prepared);
        assert_eq!(try_once(1, &mut prepared), Ok(()));
        assert!(frame(0) == before[0] && frame(1) != before[1]);
        drop(prepared);
        drop((child, space));
    }
    vm.trim();
    vm.memory().check().unwrap();
}

/// A page that has as many references as can be counted is not copied: the store ends, and waits for nothing.
#[test]
fn a_store_ends_where_the_page_has_the_most_references() {
    let machine = TestMachine::with_cpus(7 * PageSize::Huge.pages(), 1);
    let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
    vm.resize_hugetlb(PageSize::Huge, 4);
    {
        let space = space_of(&vm);
        let addr =
            space.map(&MapRequest::anonymous(BYTES).backed_by(MapBacking::Hugetlb(PageSize::Huge))).unwrap();
        let store = Fault { addr, access: Access::Write };
        space.fault(store).unwrap();
        let child = space.fork().unwrap();
        let (head, _) = space.inspect().resident_frame(addr.vpn()).unwrap();
        let references: Vec<_> = core::iter::from_fn(|| vm.memory().try_get(head)).collect();
        assert_eq!(child.fault(store).map(drop), Err(FaultError::NoMemory));
        drop(references);
        child.fault(store).unwrap();
        assert_ne!(child.inspect().resident_frame(addr.vpn()).unwrap().0, head);
        drop((child, space));
    }
    vm.trim();
    vm.memory().check().unwrap();
}
