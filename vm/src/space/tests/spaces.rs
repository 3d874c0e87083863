//! Spaces by number, and the handles that keep them.

use super::world::{PAGE, boot_map, space_of, store};
use crate::machine::testing::{TestFormat, TestMachine};
use crate::space::*;
use crate::units::{Access, VirtAddr};
use std::sync::Barrier;
use std::thread;
use std::vec::Vec;

fn allocated(vm: &Vm<'_, TestMachine>) -> u64 {
    vm.trim();
    vm.memory().check().unwrap().allocated
}

/// A handle of a space of `pages` present pages, and where they are.
fn handle_of<'s, 'v>(
    vm: &'v Vm<'v, TestMachine>,
    spaces: &'s Spaces<'v, TestMachine>,
    pages: u64,
) -> (SpaceHandle<'s, 'v, TestMachine>, VirtAddr) {
    let space = spaces.insert(space_of(vm)).unwrap();
    let base = space.map(&MapRequest::anonymous(pages * PAGE)).unwrap();
    (0..pages).for_each(|nth| store(&space, VirtAddr(base.0 + nth * PAGE)));
    (space, base)
}

#[test]
fn the_last_handle_ends_the_space_and_frees_all_of_it() {
    let machine = TestMachine::new(1024);
    let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
    let spaces = Spaces::new(&vm).unwrap();
    let before = allocated(&vm);
    let (space, _) = handle_of(&vm, &spaces, 20);
    let id = space.id();
    let (other, found) = (space.clone(), spaces.hold(id).unwrap());
    assert_eq!((space.handles_racy(), found.id()), (3, id));
    drop(space);
    drop(found);
    assert!(core::ptr::eq(&raw const *spaces.hold(id).unwrap(), &raw const *other));
    assert!(allocated(&vm) > before + 20);
    drop(other);
    assert!(spaces.hold(id).is_none());
    assert_eq!(allocated(&vm), before);
}

/// The count has no place of its own for CPUs: one that keeps the root has no handle.
#[test]
fn the_last_handle_makes_the_cpu_leave_that_keeps_the_root() {
    let machine = TestMachine::new(1024);
    let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
    let spaces = Spaces::new(&vm).unwrap();
    let before = allocated(&vm);
    let (space, base) = handle_of(&vm, &spaces, 4);
    let other = space.clone();
    core::mem::forget(space.activate(None).enter_lazy_tlb());
    drop(space);
    assert!(!other.runs_nowhere() && machine.translate(base.vpn(), Access::Write).is_some());
    drop(other);
    assert!(machine.translate(base.vpn(), Access::Write).is_none());
    assert_eq!((vm.shootdown_stats().lazy_left, allocated(&vm)), (1, before));
}

#[test]
fn a_number_finds_its_space_among_others_and_nothing_when_that_has_ended() {
    let machine = TestMachine::new(2048);
    let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
    let spaces = Spaces::new(&vm).unwrap();
    let before = allocated(&vm);
    let mut handles: Vec<_> = (0..40).map(|_| handle_of(&vm, &spaces, 1).0).collect();
    let ids: Vec<_> = handles.iter().map(|space| space.id()).collect();
    for (nth, id) in ids.iter().enumerate().step_by(2) {
        drop(handles.swap_remove(handles.iter().position(|space| space.id() == *id).unwrap()));
        for (other, id) in ids.iter().enumerate() {
            let is_there = other % 2 == 1 || other > nth;
            assert_eq!(spaces.hold(*id).map(|space| space.id()), is_there.then_some(*id));
        }
    }
    assert!(spaces.hold(SpaceId(0)).is_none() && spaces.hold(SpaceId(u64::MAX)).is_none());
    drop(handles);
    assert_eq!(allocated(&vm), before);
}

#[test]
fn a_space_that_finds_no_place_ends() {
    let machine = TestMachine::new(512);
    let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
    let spaces = Spaces::new(&vm).unwrap();
    let before = allocated(&vm);
    let space = space_of(&vm);
    let id = space.id();
    vm.memory().plan_mishap(1);
    assert_eq!(spaces.insert(space).err(), Some(Error::NoMemory));
    assert!(spaces.hold(id).is_none());
    assert_eq!(allocated(&vm), before);
}

#[test]
#[should_panic = "a space of another system"]
fn a_space_of_another_system_is_refused() {
    let machines = [TestMachine::new(512), TestMachine::new(512)];
    let [vm, other] = machines.each_ref().map(|machine| Vm::new(machine, boot_map(machine)).unwrap());
    let spaces = Spaces::new(&vm).unwrap();
    let _ = spaces.insert(space_of(&other));
}

/// Threads that clone, drop and look up handles of a space that each keeps to its own end.
#[test]
fn each_thread_keeps_its_space_to_its_end() {
    const THREADS: u32 = 4;
    let machine = TestMachine::with_cpus(2048, THREADS);
    let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
    let spaces = Spaces::new(&vm).unwrap();
    machine.run_as(0);
    let before = allocated(&vm);
    for _ in 0..20 {
        let (space, base) = handle_of(&vm, &spaces, 3);
        let (id, together) = (space.id(), Barrier::new(THREADS as usize));
        thread::scope(|scope| {
            for cpu in 0..THREADS {
                let (space, spaces, machine, together) = (space.clone(), &spaces, &machine, &together);
                scope.spawn(move || {
                    machine.run_as(cpu);
                    together.wait();
                    let found = spaces.hold(id).expect("this thread has a handle");
                    drop(space);
                    let running = found.activate(None);
                    found.fault(Fault { addr: base, access: Access::Write }).unwrap();
                    drop(running);
                    drop(found);
                    // The others may keep it; a later look is refused or as good as any.
                    if let Some(late) = spaces.hold(id) {
                        late.fault(Fault { addr: base, access: Access::Read }).unwrap();
                    }
                });
            }
            drop(space);
        });
        machine.run_as(0);
        assert!(spaces.hold(id).is_none());
    }
    assert_eq!(allocated(&vm), before);
}

/// exec of a child of vfork: the parent's space is its own again, untouched.
#[test]
fn exec_goes_to_a_new_space_and_leaves_the_shared_one() {
    let machine = TestMachine::with_cpus(1024, 2);
    let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
    let spaces = Spaces::new(&vm).unwrap();
    let before = allocated(&vm);
    let (parent, base) = handle_of(&vm, &spaces, 4);
    // The child runs in the parent's space, which sleeps meanwhile.
    let child = parent.clone();
    let running = child.activate(None);
    let new = spaces.insert(AddressSpace::new(&vm, Layout::linux::<TestFormat>(), Path::Locked).unwrap());
    let new = new.unwrap();
    let program = new.map(&MapRequest::anonymous(2 * PAGE)).unwrap();
    store(&new, program);
    let running_new = new.activate(Some(running));
    drop(child);
    assert!(parent.runs_nowhere() && !new.runs_nowhere());
    assert_eq!(parent.handles_racy(), 1);
    assert_eq!(parent.unmap(base, 4 * PAGE), Ok(()));
    let id = parent.id();
    drop(parent);
    assert!(spaces.hold(id).is_none());
    assert_eq!(running_new.space().id(), new.id());
    drop(running_new);
    // The only thread of a program: exec ends the old space at once.
    let last = spaces.insert(space_of(&vm)).unwrap();
    let running = new.activate(None);
    let running = last.activate(Some(running));
    let id = new.id();
    drop(new);
    assert!(spaces.hold(id).is_none());
    drop(running);
    drop(last);
    assert_eq!(allocated(&vm), before);
}
