//! TLBs that go on to refuse what the tables allow, until they are flushed: an entry without the right, or
//! none.

use crate::frame::{BootMap, Init, Region, RegionKind};
use crate::machine::testing::{RememberingFormat, TestMachine};
use crate::space::{AddressSpace, Advice, Fault, Layout, MapRequest, Path, Vm};
use crate::units::{Access, NodeId, PAGE_SIZE, VirtAddr};
use crate::vma::VmaFlags;

type Remembering = TestMachine<RememberingFormat>;
type TestSpace<'v> = AddressSpace<'v, Remembering>;

const PAGE: u64 = PAGE_SIZE as u64;
const READ_WRITE: VmaFlags = VmaFlags::READ.union(VmaFlags::WRITE);

/// Runs the test with a page that this CPU has written and reads.
fn with_page(path: Path, test: impl FnOnce(&Remembering, &TestSpace<'_>, VirtAddr)) {
    let machine = Remembering::of_format(600, 1);
    let frames = machine.frames();
    let kind = RegionKind::Usable(Init::Dirty);
    let region = Region { start: frames.start.addr(), len_bytes: frames.len() * PAGE, kind, node: NodeId(0) };
    let vm = Vm::new(&machine, BootMap::new(&[region]).unwrap()).unwrap();
    machine.run_as(0);
    let space = AddressSpace::new(&vm, Layout::linux::<RememberingFormat>(), path).unwrap();
    let active = space.activate(None);
    let addr = space.map(&MapRequest::anonymous(PAGE)).unwrap();
    // The first walk finds nothing, which is remembered: the second fault finds the entry, and flushes.
    assert_eq!(faults_of(&machine, &space, addr, Access::Write), 2);
    test(&machine, &space, addr);
    drop(active);
}

/// Number of faults until the access succeeds.
fn faults_of(machine: &Remembering, space: &TestSpace<'_>, addr: VirtAddr, access: Access) -> u32 {
    (0..10)
        .find(|_| {
            let translated = machine.translate(addr.vpn(), access).is_some();
            if !translated {
                space.fault(Fault { addr, access }).unwrap();
            }
            translated
        })
        .expect("an access that is allowed faults for ever")
}

/// What is remembered is that nothing is there: by the CPU that maps, and by one that looked before.
#[test]
fn an_entry_that_is_new_reaches_a_cpu_that_remembers_its_absence_by_one_more_fault() {
    for path in Path::ALL {
        with_page(path, |machine, space, _| {
            let addr = space.map(&MapRequest::anonymous(3 * PAGE)).unwrap();
            let page = |nr| VirtAddr(addr.0 + nr * PAGE);
            assert_eq!(faults_of(machine, space, page(0), Access::Read), 2, "{path:?}: a zero page");
            assert_eq!(faults_of(machine, space, page(1), Access::Write), 2, "{path:?}: a frame");
            assert!(machine.translate(page(2).vpn(), Access::Write).is_none(), "absent, and remembered");
            space.advise(page(2), PAGE, Advice::PopulateWrite).unwrap();
            assert_eq!(
                faults_of(machine, space, page(2), Access::Write),
                1,
                "{path:?}: made present by a call"
            );
        });
    }
}

#[test]
fn a_right_that_is_given_back_reaches_a_cpu_that_remembers_less() {
    for path in Path::ALL {
        with_page(path, |machine, space, addr| {
            space.protect(addr, PAGE, VmaFlags::READ).unwrap();
            assert_eq!(faults_of(machine, space, addr, Access::Read), 0);
            assert!(machine.translate(addr.vpn(), Access::Write).is_none(), "refused, and remembered");
            space.protect(addr, PAGE, READ_WRITE).unwrap();
            assert_eq!(faults_of(machine, space, addr, Access::Write), 1, "{path:?}");
        });
    }
}

/// mprotect gives the entry the right to execute itself; the fault finds it there.
#[test]
fn a_right_that_the_entry_has_already_reaches_a_cpu_that_remembers_less() {
    for path in Path::ALL {
        with_page(path, |machine, space, addr| {
            assert!(machine.translate(addr.vpn(), Access::Execute).is_none(), "refused, and remembered");
            space.protect(addr, PAGE, READ_WRITE | VmaFlags::EXECUTE).unwrap();
            assert_eq!(faults_of(machine, space, addr, Access::Execute), 1, "{path:?}");
        });
    }
}
