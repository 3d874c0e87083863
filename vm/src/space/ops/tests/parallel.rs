//! Populating and the end of a space with helpers: the same pages, and every frame given back.

use crate::frame::{BootMap, Init, Region, RegionKind};
use crate::machine::Machine as _;
use crate::machine::testing::{TestFormat, TestMachine};
use crate::space::ops::parallel::TABLE_PAGES;
use crate::space::*;
use crate::units::{Access, CpuId, NodeId, VirtAddr, Vpn};
use crate::vma::HugePolicy;
use crate::work::WorkerPool;
use std::collections::HashSet;
use std::thread;

const PAGES: u64 = 8 * TABLE_PAGES + 77;
const BYTES: u64 = PAGES * 4096;

type TestSpace<'a> = AddressSpace<'a, TestMachine>;

/// Runs `f` with a space on a machine of `frames` frames and three CPUs, two of which help; afterwards as
/// many frames are handed out as before.
pub(super) fn with_helpers(frames: u64, f: impl FnOnce(&TestSpace<'_>)) {
    with_helpers_and(HugePolicy::Never, frames, f);
}

/// As [`with_helpers`], with a policy for huge pages, of which none is counted afterwards.
pub(super) fn with_helpers_and(policy: HugePolicy, frames: u64, f: impl FnOnce(&TestSpace<'_>)) {
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

/// The frames of the pages from `start` on.
fn frames_of(space: &TestSpace<'_>, start: VirtAddr) -> HashSet<crate::units::Pfn> {
    let page = |page| Vpn(start.vpn().0 + page);
    (0..PAGES).filter_map(|at| space.inspect().resident_frame(page(at))).map(|(pfn, ..)| pfn).collect()
}

#[test]
fn a_populated_mapping_is_present_everywhere_and_all_of_it_is_given_back() {
    with_helpers(1 << 14, |space| {
        let start = space.map(&MapRequest { populate: true, ..MapRequest::anonymous(BYTES) }).unwrap();
        assert_eq!(frames_of(space, start).len() as u64, PAGES, "every page has a frame of its own");
        let lazy = space.map(&MapRequest::anonymous(BYTES)).unwrap();
        assert!(frames_of(space, lazy).is_empty());
        space.advise(lazy, BYTES, Advice::PopulateRead).unwrap();
        assert_eq!(frames_of(space, lazy).len(), 1, "all pages show the zero page");
        space.advise(lazy, BYTES, Advice::PopulateWrite).unwrap();
        assert_eq!(frames_of(space, lazy).len() as u64, PAGES);
    });
}

#[test]
fn populating_more_than_there_is_says_so_and_leaks_nothing() {
    with_helpers(3000, |space| {
        let start = space.map(&MapRequest::anonymous(BYTES)).unwrap();
        assert_eq!(space.advise(start, BYTES, Advice::PopulateWrite), Err(Error::NoMemory));
        assert!((frames_of(space, start).len() as u64) < PAGES);
    });
}

#[test]
fn a_huge_page_is_zero_whoever_has_zeroed_its_parts() {
    const HUGE: u64 = 512;
    with_helpers_and(HugePolicy::Always, 1 << 13, |space| {
        let machine = space.vm().machine();
        for round in 1..=4 {
            let start = space.map(&MapRequest::anonymous(4 * HUGE * 4096)).unwrap();
            for page in (0..4 * HUGE).step_by(512) {
                let addr = VirtAddr(start.0 + page * 4096);
                space.fault(Fault { addr, access: Access::Write }).unwrap();
            }
            assert_eq!(space.vm().totals().get(Counter::ThpFaultAlloc), 4 * round);
            for page in 0..4 * HUGE {
                let (pfn, _) = space.inspect().resident_frame(Vpn(start.vpn().0 + page)).unwrap();
                let mut bytes = [0xff; 4096];
                machine.read(pfn, 0, &mut bytes);
                assert!(bytes == [0; 4096], "page {page} of round {round}");
                machine.write(pfn, 4000, &[page as u8 | 1; 96]);
            }
            space.unmap(start, 4 * HUGE * 4096).unwrap();
        }
    });
}
