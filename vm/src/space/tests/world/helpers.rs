//! Systems whose CPUs help.

use crate::frame::{BootMap, Init, Region, RegionKind};
use crate::machine::Machine as _;
use crate::machine::testing::{TestFormat, TestMachine};
use crate::space::*;
use crate::units::{CpuId, NodeId};
use crate::vma::HugePolicy;
use crate::work::WorkerPool;
use std::thread;

pub(in crate::space::tests) type TestSpace<'a> = AddressSpace<'a, TestMachine>;

/// Runs `f` with a space on a machine of `frames` frames and three CPUs, two of which help; afterwards as
/// many frames are handed out as before.
pub(in crate::space::tests) fn with_helpers(frames: u64, f: impl FnOnce(&TestSpace<'_>)) {
    with_helpers_and(HugePolicy::Never, frames, f);
}

/// As [`with_helpers`], with a policy for huge pages, of which none is counted afterwards.
pub(in crate::space::tests) fn with_helpers_and(
    policy: HugePolicy,
    frames: u64,
    f: impl FnOnce(&TestSpace<'_>),
) {
    let machine = &TestMachine::with_cpus(frames, 3);
    machine.run_as(0);
    let usable = machine.frames();
    let region = Region {
        start: usable.start.addr(),
        len_bytes: usable.len() * 4096,
        kind: RegionKind::Usable(Init::Dirty),
        node: NodeId(0),
    };
    thread::scope(|s| {
        let mut memory = BootMap::new(&[region]).unwrap().claim(machine).unwrap();
        let workers = WorkerPool::spawn(machine, &mut memory.early_allocator()).unwrap();
        for cpu in 1..machine.nr_cpus() {
            s.spawn(move || {
                machine.run_as(cpu);
                machine.run_helper();
            });
        }
        while !(1..machine.nr_cpus()).all(|cpu| workers.has_helper_racy(CpuId(cpu))) {
            thread::yield_now();
        }
        let options = VmOptions { workers: Some(&workers), huge_pages: policy, ..VmOptions::default() };
        let vm = Vm::start(memory, options).unwrap();
        let in_use = || {
            vm.trim();
            vm.memory().check().unwrap().allocated
        };
        let before = in_use();
        let space =
            AddressSpace::new(&vm, Layout::linux::<TestFormat>().overcommit(), Path::Speculative).unwrap();
        f(&space);
        drop(space);
        assert_eq!((in_use(), vm.totals().get(Counter::NrAnonTransparentHugepages)), (before, 0));
    });
}
