//! The writers of records: CPUs of the frames' node, and allocations that find their zone empty.

use super::record_window_tests::{recount, regions, start, use_all};
use crate::frame::{AllocRequest, NodeInitReport, Priority, RecordInit, SECTION_FRAMES};
use crate::machine::Machine;
use crate::machine::testing::{TestCpu, TestMachine};
use crate::units::{CpuId, NodeId, Order, Pfn};
use crate::work::{PollLimit, WorkerPool};
use std::boxed::Box;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::vec::Vec;

/// CPUs 0 and 1 on node 0, CPUs 2 and 3 on node 1; the caller is CPU 0, and those from 1 to `last` have
/// helpers.
fn with_helpers(machine: &TestMachine, last: u32, run: impl FnOnce(&WorkerPool<'_, TestMachine>)) {
    machine.cpus_per_node.store(2, Relaxed);
    machine.run_as(0);
    std::thread::scope(|scope| {
        let workers = WorkerPool::spawn(machine, &mut crate::sync::testing::Heap).unwrap();
        // The caller waits for helpers however long they take to begin.
        workers.set_poll_limit(PollLimit(u32::MAX));
        for cpu in 1..=last {
            scope.spawn(move || {
                machine.run_as(cpu);
                machine.run_helper();
            });
        }
        while !(1..=last).all(|cpu| workers.has_helper_racy(CpuId(cpu))) {
            std::thread::yield_now();
        }
        run(&workers);
    });
}

/// Which CPU wrote the records of each block.
type Writers = Arc<Mutex<BTreeMap<u64, CpuId>>>;

fn listen(machine: &TestMachine) -> Writers {
    let writers = Writers::default();
    let heard = writers.clone();
    let listener = move |cpu, name, block| {
        if name == super::RECORDS_WRITTEN {
            assert_eq!(heard.lock().unwrap().insert(block, cpu), None, "{block:#x} was written twice");
        }
    };
    *machine.listener.lock().unwrap() = Some(Box::new(listener));
    writers
}

#[test]
fn the_records_of_a_node_are_written_by_its_cpus() {
    for round in 0..8 {
        let machine = TestMachine::with_cpus(8 * SECTION_FRAMES / 4, 4);
        let end = machine.frames().len();
        // In odd rounds the caller's node has nothing to do.
        let border = if round % 2 == 0 { end / 2 } else { 2048 };
        let regions = regions(&machine, &[(0, border, 0), (border, end, 1)]);
        let writers = listen(&machine);
        let mut blocks = 0;
        with_helpers(&machine, 3, |workers| {
            let memory = start(&machine, &regions, RecordInit::Deferred).unwrap();
            let deferred = memory.deferred().frames();
            let told = Mutex::new(Vec::new());
            let done = |report: NodeInitReport| told.lock().unwrap().push(report.node);
            memory.deferred().initialise(workers, u32::MAX, &|| false, &done).unwrap();
            let mut told = told.into_inner().unwrap();
            told.sort();
            assert_eq!(told, [NodeId(0), NodeId(1)]);
            assert_eq!(memory.deferred().frames(), 0);
            blocks = deferred / Order::MAX.frames();
            use_all(&memory);
        });
        let writers = writers.lock().unwrap();
        assert!(writers.len() as u64 >= blocks && blocks > 10, "{} of {blocks}", writers.len());
        for (&block, &cpu) in &*writers {
            let region = regions.iter().find(|region| region.frames().contains(Pfn(block)));
            // Blocks without usable frames, the last one among them, are written for a neighbour.
            let Some(region) = region else { continue };
            assert_eq!(machine.node_of(cpu), region.node, "{block:#x} by {cpu:?}");
        }
    }
    TestCpu::become_cpu(0);
}

#[test]
fn growth_on_demand_and_helpers_share_a_window() {
    for seed in 0..6 {
        let machine = TestMachine::with_cpus(60_000, 4);
        let regions = regions(&machine, &[(0, 20_000, 0), (20_000, 31_000, 1), (40_000, 60_000, 0)]);
        with_helpers(&machine, 2, |workers| {
            let memory = start(&machine, &regions, RecordInit::Deferred).unwrap();
            // One block of each node is there from the start: this one is needed on demand.
            let ask = AllocRequest::DIRTY.with_priority(Priority::Reserve);
            let mut held: Vec<_> = (0..seed).filter_map(|_| memory.alloc(Order::MAX, ask)).collect();
            let memory = &memory;
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    machine.run_as(3);
                    held.extend(core::iter::from_fn(|| memory.alloc(Order::MAX, ask)));
                });
                memory.deferred().initialise(workers, u32::MAX, &|| false, &|_| ()).unwrap();
            });
            let mut heads: Vec<_> = held.iter().map(|block| block.pfn()).collect();
            heads.sort();
            heads.dedup();
            assert_eq!(heads.len(), held.len(), "a block was allocated twice");
            drop(held);
            assert_eq!(memory.deferred().frames(), 0);
            recount(&machine, memory, &regions);
            use_all(memory);
        });
    }
    TestCpu::become_cpu(0);
}

#[test]
fn each_node_is_reported_when_it_is_initialised() {
    let machine = TestMachine::new(72_000);
    let regions = regions(&machine, &[(0, 20_000, 0), (20_000, 45_000, 2), (50_000, 72_000, 1)]);
    let memory = start(&machine, &regions, RecordInit::Deferred).unwrap();
    let mut deferred: Vec<_> = memory.zones().iter().map(|zone| (zone.node(), zone.deferred())).collect();
    let told = Mutex::new(Vec::new());
    let workers = WorkerPool::without_helpers(&machine);
    let done = |done: NodeInitReport| told.lock().unwrap().push((done.node, done.frames));
    memory.deferred().initialise(&workers, 0, &|| false, &done).unwrap();
    let mut told = told.into_inner().unwrap();
    assert_eq!(told[0].0, NodeId(0), "the caller begins on its own node");
    told.sort();
    deferred.sort();
    assert_eq!(told, deferred);
    assert_eq!(memory.deferred().frames(), 0);
}
