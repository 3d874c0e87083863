//! Bytes of a space that others read and write; forced stores to memory that its program may not write.

use crate::frame::Kind;
use crate::machine::Entry;
use crate::machine::testing::TestMachine;
use crate::space::tests::world::{PAGE, boot_map, space_of};
use crate::space::*;
use crate::table::walk;
use crate::units::{Access, Level, Pfn, VirtAddr};
use crate::vma::VmaFlags;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;

type Space<'v> = AddressSpace<'v, TestMachine>;
const NO_RIGHTS: VmaFlags = VmaFlags::empty();

fn frame_at(space: &Space<'_>, addr: VirtAddr) -> Option<Pfn> {
    let reading = space.vm.rcu.read();
    match walk(&space.entries.table, addr.vpn(), Level::Pte, &reading).entry() {
        Entry::Leaf(leaf) => Some(leaf.pfn),
        _ => None,
    }
}

fn bytes<const N: usize>(space: &Space<'_>, addr: VirtAddr) -> [u8; N] {
    let mut bytes = [0xee; N];
    assert_eq!(space.copy_from(addr, &mut bytes), Ok(N));
    bytes
}

fn add(addr: VirtAddr, bytes: u64) -> VirtAddr {
    VirtAddr(addr.0 + bytes)
}

#[test]
fn what_is_copied_to_a_space_is_read_there_across_pages() {
    for path in Path::ALL {
        let machine = TestMachine::new(512);
        let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
        let space = AddressSpace::new(&vm, *space_of(&vm).layout(), path).unwrap();
        let base = space.map(&MapRequest::anonymous(4 * PAGE)).unwrap();
        let text: std::vec::Vec<u8> = (0..2 * PAGE + 100).map(|at| (at * 7) as u8 | 1).collect();
        assert_eq!(space.copy_to(add(base, PAGE - 50), &text), Ok(text.len()));
        let mut all = std::vec![0xee; 4 * PAGE as usize];
        assert_eq!(space.copy_from(base, &mut all), Ok(all.len()));
        let start = PAGE as usize - 50;
        assert_eq!(all[start..start + text.len()], text);
        assert!(all[..start].iter().chain(&all[start + text.len()..]).all(|&byte| byte == 0));
        assert_eq!((space.copy_to(base, &[]), space.copy_from(VirtAddr(0), &mut [])), (Ok(0), Ok(0)));
    }
}

#[test]
fn a_copy_ends_before_the_first_page_that_refuses_it() {
    let machine = TestMachine::new(512);
    let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
    let space = space_of(&vm);
    let base = space.map(&MapRequest::anonymous(4 * PAGE)).unwrap();
    space.unmap(add(base, 3 * PAGE), PAGE).unwrap();
    space.protect(add(base, 2 * PAGE), PAGE, VmaFlags::READ).unwrap();
    let mut all = std::vec![7; 4 * PAGE as usize];
    assert_eq!(space.copy_to(add(base, 10), &all), Ok(2 * PAGE as usize - 10));
    assert_eq!(space.copy_from(add(base, 10), &mut all), Ok(3 * PAGE as usize - 10));
    assert_eq!(space.copy_to(add(base, 2 * PAGE), &[1]), Err(Error::Fault));
    assert_eq!(space.copy_from(add(base, 3 * PAGE), &mut [0]), Err(Error::Fault));
    space.protect(base, PAGE, NO_RIGHTS).unwrap();
    assert_eq!(space.copy_from(base, &mut [0]), Err(Error::Fault));
    let end = space.layout().areas.user.end.addr();
    for addr in [VirtAddr(end.0 - 1), end, VirtAddr(u64::MAX)] {
        assert_eq!(space.copy_from(addr, &mut [0; 2]), Err(Error::Fault));
        assert_eq!(space.copy_to_forced(addr, &[0; 2]), Err(Error::Fault));
    }
}

#[test]
fn a_copy_from_a_space_takes_no_frame_and_unshares_none() {
    let machine = TestMachine::new(512);
    let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
    let space = space_of(&vm);
    let base = space.map(&MapRequest::anonymous(2 * PAGE)).unwrap();
    assert_eq!(space.copy_to(base, &[5]), Ok(1));
    let child = space.fork().unwrap();
    assert_eq!(bytes(&child, base), [5]);
    assert_eq!(frame_at(&space, base), frame_at(&child, base));
    assert_eq!(bytes(&child, add(base, PAGE)), [0]);
    assert_eq!(frame_at(&child, add(base, PAGE)), Some(vm.memory().zero_frame()));
    assert_eq!(child.copy_to(base, &[6]), Ok(1));
    assert_ne!(frame_at(&space, base), frame_at(&child, base));
    assert_eq!((bytes(&space, base), bytes(&child, base)), ([5], [6]));
}

#[test]
fn a_forced_store_copies_and_gives_the_program_no_right() {
    for rights in [VmaFlags::READ, NO_RIGHTS] {
        let machine = TestMachine::new(512);
        let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
        let space = space_of(&vm);
        let base = space.map(&MapRequest::anonymous(3 * PAGE)).unwrap();
        // A frame that the child shares, the zero page, and nothing.
        assert_eq!(space.copy_to(base, &[1]), Ok(1));
        assert_eq!(bytes(&space, add(base, PAGE)), [0]);
        let child = space.fork().unwrap();
        child.protect(base, 3 * PAGE, rights).unwrap();
        for nth in 0..3 {
            let at = add(base, nth * PAGE);
            assert_eq!(child.copy_to(at, &[9]), Err(Error::Fault));
            assert_eq!(child.copy_to_forced(at, &[8, 9]), Ok(2));
            let denied = child.fault(Fault { addr: at, access: Access::Write });
            assert_eq!(denied, Err(FaultError::NotAllowed));
            let meta = vm.memory().meta(frame_at(&child, at).unwrap()).unwrap();
            assert!(meta.state().kind() == Kind::User && meta.state().is_exclusive());
        }
        child.protect(base, 3 * PAGE, VmaFlags::READ).unwrap();
        assert_eq!([0, 1, 2].map(|nth| bytes(&child, add(base, nth * PAGE))), [[8, 9]; 3]);
        assert_eq!([0, 1, 2].map(|nth| bytes(&space, add(base, nth * PAGE))), [[1, 0], [0, 0], [0, 0]]);
        assert_zero_page_is_zero(&machine, &vm);
    }
}

#[test]
fn a_forced_store_to_shared_memory_asks_for_the_right() {
    let machine = TestMachine::new(512);
    let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
    let space = space_of(&vm);
    let shared = MapRequest { sharing: Sharing::Shared, ..MapRequest::anonymous(2 * PAGE) };
    let base = space.map(&shared).unwrap();
    assert_eq!(space.copy_to(base, &[3]), Ok(1));
    assert_eq!(space.copy_to_forced(base, &[4]), Ok(1));
    space.protect(base, 2 * PAGE, VmaFlags::READ).unwrap();
    for nth in 0..2 {
        assert_eq!(space.copy_to_forced(add(base, nth * PAGE), &[5]), Err(Error::Fault));
    }
    assert_eq!((bytes(&space, base), bytes(&space, add(base, PAGE))), ([4], [0]));
}

fn assert_zero_page_is_zero(machine: &TestMachine, vm: &Vm<'_, TestMachine>) {
    let mut page = [0xee; PAGE as usize];
    machine.read(vm.memory().zero_frame(), 0, &mut page);
    assert!(page.iter().all(|&byte| byte == 0), "the zero page was written");
}

/// The Dirty COW pattern: forced stores to a page that may only be read, while another thread discards it and
/// a third makes it the zero page again. Neither the zero page nor the frame that the parent shares shows a
/// byte of them.
#[test]
fn forced_stores_beside_discards_reach_no_frame_of_others() {
    const ROUNDS: usize = 3000;
    let machine = TestMachine::with_cpus(1024, 3);
    let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
    machine.run_as(0);
    let parent = space_of(&vm);
    let base = parent.map(&MapRequest::anonymous(2 * PAGE)).unwrap();
    assert_eq!(parent.copy_to(base, &[1; 64]), Ok(64));
    let mut child = parent.fork().unwrap();
    child.protect(base, 2 * PAGE, VmaFlags::READ).unwrap();
    for _ in 0..4 {
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let (child, done, machine) = (&child, &done, &machine);
            scope.spawn(move || {
                machine.run_as(1);
                while !done.load(SeqCst) {
                    child.advise(base, 2 * PAGE, Advice::DontNeed).unwrap();
                }
            });
            scope.spawn(move || {
                machine.run_as(2);
                while !done.load(SeqCst) {
                    for nth in 0..2 {
                        let seen: [u8; 64] = bytes(child, add(base, nth * PAGE));
                        let is_known = [0, 1, 0xdd].iter().any(|&byte| seen == [byte; 64]);
                        // Others of this thread's are stored while this reads.
                        assert!(is_known || seen.iter().all(|&byte| matches!(byte, 0 | 1 | 0xdd)));
                    }
                }
            });
            machine.run_as(0);
            for nth in 0..ROUNDS {
                let at = add(base, (nth % 2) as u64 * PAGE);
                assert_eq!(child.copy_to_forced(at, &[0xdd; 64]), Ok(64));
            }
            done.store(true, SeqCst);
        });
        machine.run_as(0);
        assert_zero_page_is_zero(&machine, &vm);
        assert_eq!(bytes(&parent, base), [1; 64]);
        assert_eq!(bytes(&parent, add(base, PAGE)), [0; 64]);
        // With the parent's frame shared again.
        child = parent.fork().unwrap();
        child.protect(base, 2 * PAGE, VmaFlags::READ).unwrap();
    }
    assert_eq!(vm.memory().check().map(|counts| counts.pinned), Ok(0));
}
