//! Calls on large ranges, whose helper is preempted within its visits by threads that spin on its CPU.

use crate::machine::testing::TestMachine;
use crate::space::tests::world::pins::{Limit, slots};
use crate::space::tests::world::{PAGE, boot_map, space_of};
use crate::space::{AddressSpace, Advice, MapRequest, Vm, VmOptions};
use crate::units::{Access, PageSize, VirtAddr};
use crate::work::tests::preempted::{Ready, Spinners};
use crate::work::{PollLimit, WorkerPool};
use std::boxed::Box;

const BYTES: u64 = 16 * PageSize::Huge.bytes();
/// Repetitions of a call: the helper may come too late for one of them.
const TIMES: usize = 6;
type TestVm = Vm<'static, TestMachine>;

fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

/// Repeats a call on memory that is mapped and, where `is_populated`, present. Threads that spin are ready
/// whenever a helper has begun to visit it.
fn repeat(
    what: &str,
    is_populated: bool,
    call: impl Fn(&'static TestVm, AddressSpace<'static, TestMachine>, VirtAddr) + Send + Sync + 'static,
) {
    let machine = TestMachine::leaked(20 * PageSize::Huge.pages(), 2);
    machine.run_as(0);
    let mut memory = boot_map(machine).claim(machine).unwrap();
    let workers = leak(WorkerPool::spawn(machine, &mut memory.early_allocator()).unwrap());
    // A helper that does not park comes soon.
    workers.set_poll_limit(PollLimit(u32::MAX));
    let spinners = Spinners::new(workers);
    let options = VmOptions { workers: Some(workers), ..VmOptions::default() };
    let vm = leak(Vm::start(memory, options).unwrap());
    let call = leak(call);
    for _ in 0..TIMES {
        spinners.become_ready(Ready::Never);
        let space = space_of(vm);
        let base = space.map(&MapRequest::anonymous(BYTES)).unwrap();
        if is_populated {
            space.advise(base, BYTES, Advice::PopulateWrite).unwrap();
        }
        spinners.become_ready(Ready::InVisits);
        spinners.must_end(what, move || call(vm, space, base));
    }
}

#[test]
fn munmap_ends() {
    repeat("munmap", true, |_, space, base| space.unmap(base, BYTES).unwrap());
}

#[test]
fn madvise_ends() {
    repeat("MADV_DONTNEED", true, |_, space, base| space.advise(base, BYTES, Advice::DontNeed).unwrap());
}

#[test]
fn populating_ends() {
    repeat("MADV_POPULATE_WRITE", false, |_, space, base| {
        space.advise(base, BYTES, Advice::PopulateWrite).unwrap();
    });
}

#[test]
fn the_end_of_a_space_ends() {
    repeat("exit", true, |_, space, _| drop(space));
}

#[test]
fn pinning_a_range_ends() {
    repeat("a range of pins", true, |_, space, base| {
        let limit = Limit::new(BYTES / PAGE);
        let pins = space.pin_range(base, Access::Write, &limit, slots((BYTES / PAGE) as usize));
        drop(pins.unwrap());
    });
}

#[test]
fn the_reserved_pool_grows_and_shrinks() {
    repeat("a resize", false, |vm, space, _| {
        drop(space);
        assert!(vm.resize_hugetlb(PageSize::Huge, 17).total > 10);
        assert_eq!(vm.resize_hugetlb(PageSize::Huge, 0).total, 0);
    });
}
