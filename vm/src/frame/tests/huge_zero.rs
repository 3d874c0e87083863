//! The huge zero page among spaces that begin and end, with memory that runs out, on several nodes.

use super::*;
use crate::frame::tests::{memory, region};
use crate::frame::{BootMap, RegionKind};
use crate::machine::testing::{TestCpu, TestMachine};
use std::vec::Vec;

type Use = HugeZeroUse<TestCpu>;

const NORMAL: Option<Priority> = Some(Priority::Normal);

/// Allocated frames, the small zero page among them.
fn allocated(memory: &Memory<'_, TestMachine>) -> u64 {
    memory.check().unwrap().allocated
}

#[test]
fn it_is_allocated_once_zeroed_and_marked_and_shrunk_when_nobody_uses_it() {
    let machine = TestMachine::new(4096);
    let memory = memory(&machine);
    let (mut first, mut second) = (Use::new(), Use::new());
    assert_eq!(first.take(&memory, None), Err(NoHugeZero));
    let (pfn, how) = first.take(&memory, NORMAL).unwrap();
    assert_eq!((how, first.take(&memory, NORMAL)), (Taken::Allocated, Ok((pfn, Taken::Shared))));
    assert_eq!(second.take(&memory, None), Ok((pfn, Taken::Shared)));
    assert!(memory.zero_pages().is_huge_zero(pfn) && !memory.zero_pages().is_huge_zero(memory.zero_frame()));
    assert!(first.holds(&memory, pfn) && !first.holds(&memory, Pfn(0)));
    assert_eq!((allocated(&memory), memory.zero_pages().huge_frames()), (1 + 512, 512));
    assert!(memory.try_get(pfn).is_none(), "it has no references of its own");
    let mut bytes = [1; 4096];
    machine.read(pfn.add(511), 0, &mut bytes);
    assert_eq!(bytes, [0; 4096]);
    first.put_all(&memory);
    second.put_all(&memory);
    assert_eq!(allocated(&memory), 1 + 512, "it stays until it is asked for");
    assert_eq!((memory.zero_pages().shrink(), memory.zero_pages().shrink()), (512, 0));
    assert!(!memory.zero_pages().is_huge_zero(pfn));
    assert_eq!((allocated(&memory), memory.zero_pages().huge_frames()), (1, 0));
    // It comes back.
    assert_eq!(first.take(&memory, NORMAL).unwrap().1, Taken::Allocated);
    first.put_all(&memory);
    memory.zero_pages().shrink();
}

#[test]
fn what_is_asked_for_while_it_is_used_goes_with_its_last_user() {
    let machine = TestMachine::new(4096);
    let memory = memory(&machine);
    let mut users: Vec<Use> = (0..3).map(|_| Use::new()).collect();
    let (pfn, _) = users[0].take(&memory, NORMAL).unwrap();
    users[1].take(&memory, None).unwrap();
    assert_eq!(memory.zero_pages().shrink(), 0);
    assert!(memory.zero_pages().is_huge_zero(pfn));
    users[0].put_all(&memory);
    users[1].put_all(&memory);
    assert_eq!((allocated(&memory), memory.zero_pages().is_huge_zero(pfn)), (1, false));
    // Asked for, and wanted by one more: it stays.
    users[0].take(&memory, NORMAL).unwrap();
    assert_eq!(memory.zero_pages().shrink(), 0);
    users[2].take(&memory, None).unwrap();
    users[0].put_all(&memory);
    users[2].put_all(&memory);
    assert_eq!((memory.zero_pages().huge_frames(), memory.zero_pages().shrink()), (512, 512));
}

#[test]
fn a_page_that_is_kept_is_not_shrunk() {
    let machine = TestMachine::new(4096);
    let memory = memory(&machine);
    memory.zero_pages().set_options(HugeZeroOptions::LAZY.persistent());
    let mut user = Use::new();
    user.take(&memory, NORMAL).unwrap();
    user.put_all(&memory);
    assert_eq!((memory.zero_pages().shrink(), memory.zero_pages().huge_frames()), (0, 512));
    memory.zero_pages().set_options(HugeZeroOptions::LAZY);
    assert_eq!(memory.zero_pages().shrink(), 512);
}

#[test]
fn without_memory_there_is_none_and_nothing_is_lost() {
    let machine = TestMachine::new(4096);
    let memory = memory(&machine);
    let mut user = Use::new();
    memory.plan_mishap(1);
    assert_eq!(user.take(&memory, NORMAL), Err(NoHugeZero));
    // Every block of 2 MiB has frames in use.
    let held: Vec<_> = core::iter::from_fn(|| memory.alloc(Order(8), AllocRequest::DIRTY)).collect();
    assert_eq!(user.take(&memory, NORMAL), Err(NoHugeZero));
    drop(held);
    assert!(user.take(&memory, NORMAL).is_ok());
    user.put_all(&memory);
    memory.zero_pages().shrink();
    assert_eq!(allocated(&memory), 1);
}

#[test]
fn each_node_has_a_page_of_its_own_where_that_is_wanted() {
    let machine = TestMachine::with_cpus(8192, 2);
    machine.cpus_per_node.store(1, Relaxed);
    let usable = RegionKind::Usable(Init::Dirty);
    let map = [region(&machine, 0, 4096, usable, 0), region(&machine, 4096, 8192, usable, 1)];
    let memory = Memory::new(&machine, BootMap::new(&map).unwrap()).unwrap();
    memory.zero_pages().set_options(HugeZeroOptions::LAZY.per_node());
    let (mut parent, mut child) = (Use::new(), Use::new());
    let pages: Vec<_> = [0, 1]
        .into_iter()
        .map(|cpu| {
            TestCpu::become_cpu(cpu);
            parent.take(&memory, NORMAL).unwrap()
        })
        .collect();
    assert!(pages.iter().all(|(_, how)| *how == Taken::Allocated));
    assert_eq!([0, 1].map(|at: usize| memory.node_of(pages[at].0).0), [0, 1]);
    assert_eq!(memory.zero_pages().huge_frames(), 1024);
    // On whatever CPU, a child takes what its parent maps.
    child.take_page(&memory, pages[0].0).unwrap();
    assert!(child.holds(&memory, pages[0].0) && !child.holds(&memory, pages[1].0));
    parent.put_all(&memory);
    assert_eq!(memory.zero_pages().shrink(), 512, "the page of node 1");
    child.put_all(&memory);
    assert_eq!((memory.zero_pages().huge_frames(), allocated(&memory)), (0, 1));
    TestCpu::become_cpu(0);
}

#[test]
fn threads_that_begin_end_and_shrink_lose_no_frame() {
    let machine = TestMachine::with_cpus(4096, 4);
    let memory = memory(&machine);
    let work = |cpu: u32| {
        machine.run_as(cpu);
        for round in 0..200 {
            if cpu == 3 {
                memory.zero_pages().shrink();
                continue;
            }
            let mut user = Use::new();
            let (pfn, _) = user.take(&memory, NORMAL).unwrap();
            assert!(memory.zero_pages().is_huge_zero(pfn));
            if round % 16 == 0 {
                let mut bytes = [1; 64];
                machine.read(pfn.add(round), 128, &mut bytes);
                assert_eq!(bytes, [0; 64]);
            }
            assert!(user.holds(&memory, pfn));
            user.put_all(&memory);
        }
    };
    std::thread::scope(|scope| (0..4).for_each(|cpu| drop(scope.spawn(move || work(cpu)))));
    memory.zero_pages().shrink();
    assert_eq!(allocated(&memory), 1);
}
