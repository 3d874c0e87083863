//! What is committed for private mappings of objects, huge pages, and lack of memory.

use super::*;
use crate::vma::{HugePolicy, SharedHugePolicy};

const HUGE: u64 = 512;

#[test]
fn writable_private_memory_is_committed() {
    for path in [Path::Speculative, Path::Locked] {
        let machine = TestMachine::new(1500);
        let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
        let layout = Layout { max_commit_pages: Some(4), ..Layout::linux::<TestFormat>() };
        let space = AddressSpace::new(&vm, layout, path).unwrap();
        let object = ObjectHandle::new(&vm, 8 * PAGE).unwrap();
        let try_map = |pages, flags| {
            let request = MapRequest { flags, ..request(PRIVATE, pages, Sharing::Private) };
            space.map(&request.backed_by(object.at_page(0))).map(drop)
        };
        assert_eq!(try_map(5, RW), Err(Error::NoMemory));
        assert_eq!(space.inspect().nr_mappings(), 0, "refused, and not counted as mapped");
        assert_eq!(try_map(5, RW | VmaFlags::NORESERVE), Ok(()));
        assert_eq!(try_map(5, VmaFlags::READ), Ok(()));
        assert_eq!(space.protect(at(PRIVATE), 5 * PAGE, RW), Err(Error::NoMemory));
        assert_eq!(try_map(4, RW), Ok(()), "in the place of the others, of which one page is left");
        assert_eq!(space.protect(at(PRIVATE), 4 * PAGE, VmaFlags::READ), Ok(()));
        // The one that is to lie there splits what is in its way, as in Linux.
        let before = space.inspect().nr_mappings();
        assert_eq!(try_map(9, RW), Err(Error::NoMemory));
        assert_eq!(space.inspect().nr_mappings(), before);
        let child = space.fork().unwrap();
        assert_eq!(child.inspect().nr_mappings(), before);
    }
}

/// The shared mapping shows the folio by one leaf, the private one base pages of it.
#[test]
fn a_private_mapping_has_no_huge_page() {
    for path in [Path::Speculative, Path::Locked] {
        let machine = TestMachine::new(4000);
        let (huge_pages, shared_huge_pages) = (HugePolicy::Always, SharedHugePolicy::Always);
        let vm = vm_with(&machine, VmOptions { huge_pages, shared_huge_pages, ..VmOptions::default() });
        on(&vm, path, |vm, space| {
            let object = ObjectHandle::new(vm, HUGE * PAGE).unwrap();
            let fixed = |page, sharing| MapRequest {
                place: Place::Fixed(VirtAddr(page * PAGE)),
                sharing,
                ..MapRequest::anonymous(HUGE * PAGE)
            };
            let [first, second] = [8 * HUGE, 9 * HUGE];
            space.map(&fixed(first, Sharing::Shared).backed_by(object.at_page(0))).unwrap();
            space.map(&fixed(second, Sharing::Private).backed_by(object.at_page(0))).unwrap();
            let fault = |page: u64, access| space.fault(Fault { addr: VirtAddr(page * PAGE), access });
            fault(first, Access::Write).unwrap();
            assert_eq!(space.inspect().resident().shared_huge_pages, 1);
            fault(second + 3, Access::Read).unwrap();
            fault(second + 4, Access::Write).unwrap();
            let resident = space.inspect().resident();
            assert_eq!((resident.base_pages, resident.shared_huge_pages, resident.huge_pages), (2, 1, 0));
            assert_eq!(space.collapse(VirtAddr(second * PAGE), HUGE * PAGE), Err(Error::Invalid));
            let frame = |page| space.inspect().resident_frame(crate::units::Vpn(page)).unwrap();
            assert_eq!(frame(second + 3).0, frame(first + 3).0);
            assert_ne!(frame(second + 4).0, frame(first + 4).0);
        });
    }
}

/// What a program does with private memory, its fork and a debugger.
fn steps(space: &Space<'_>, object: &Object<'_>) -> Result<(), Error> {
    let lacks = |error| match error {
        FaultError::NoMemory => Error::NoMemory,
        other => panic!("{other}"),
    };
    space.map(&request(PRIVATE, 4, Sharing::Private).backed_by(object.at_page(0)))?;
    fault(space, PRIVATE, Access::Read).map_err(lacks)?;
    fault(space, PRIVATE, Access::Write).map_err(lacks)?;
    fault(space, PRIVATE + 1, Access::Write).map_err(lacks)?;
    space.copy_to_forced(at(PRIVATE + 2), &[1])?;
    let child = space.fork()?;
    fault(&child, PRIVATE + 1, Access::Write).map_err(lacks)?;
    fault(&child, PRIVATE + 3, Access::Write).map_err(lacks)
}

/// Whichever allocation is refused, and the next ones: all is done, or memory lacks; and all comes back.
#[test]
fn a_lack_of_memory_loses_nothing() {
    let mut nth = 1;
    loop {
        let has_struck = core::cell::Cell::new(false);
        in_each(|vm, space| {
            let object = ObjectHandle::new(vm, 4 * PAGE).unwrap();
            vm.memory().plan_mishaps(nth, 8);
            let result = steps(&space, &object);
            has_struck.set(has_struck.get() | !vm.memory().is_mishap_planned());
            vm.memory().plan_mishap(0);
            assert!(matches!(result, Ok(()) | Err(Error::NoMemory)), "allocation {nth}: {result:?}");
            vm.memory().check().unwrap();
            space.inspect().check_index().unwrap();
        });
        if !has_struck.get() {
            break;
        }
        nth += 1;
    }
    assert!(nth > 8, "{nth} allocations");
}
