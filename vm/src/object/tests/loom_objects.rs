//! Two CPUs and one object: filling, growing, the last unmap. All executions with three preemptions.

use super::{FillError, Objects};
use crate::frame::{BootMap, Init, Kind, Memory, Priority, Region, RegionKind};
use crate::machine::testing::{TestCpu, TestMachine, with_leaked};
use crate::sync::testing::run_model;
use crate::sync::testing::thread;
use crate::sync::{Rcu, refill_zeros};
use crate::units::{NodeId, PAGE_SIZE, Pfn};
use core::num::NonZeroU64;
use std::boxed::Box;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const NUMBER: NonZeroU64 = NonZeroU64::MIN;
/// Pages that mappings cover; a page of the second node is among them.
const PAGES: u64 = 1000;

/// The parts of a system that objects need.
struct World {
    memory: Memory<'static, TestMachine>,
    rcu: Rcu<'static, TestCpu>,
    objects: Objects<'static, TestMachine>,
}

impl World {
    fn new(machine: &'static TestMachine) -> Self {
        let (start, len_bytes) = (machine.frames().start.addr(), machine.frames().len() * PAGE_SIZE as u64);
        let kind = RegionKind::Usable(Init::Zeroed);
        let map = BootMap::new(&[Region { start, len_bytes, kind, node: NodeId(0) }]).unwrap();
        let memory = Memory::new(machine, map).unwrap();
        let rcu = Rcu::carve(&mut memory.boot_allocator(), 2).unwrap();
        let objects = Objects::new(&memory, &rcu, None).unwrap();
        Self { memory, rcu, objects }
    }

    /// As a fault does: finds the page's frame, or fills it. `Err` where the object is gone or dead.
    fn find_or_fill(&self, page: u64) -> Result<Pfn, FillError> {
        let mut frame = self.memory.alloc_zeroed(Priority::NoWait);
        let reading = self.rcu.read();
        let object = self.objects.get(NUMBER, &reading).ok_or(FillError::Dead)?;
        let found = object.lookup(&self.memory, page, &reading);
        let pfn = found.map_or_else(|| object.fill(&self.memory, page, &mut frame, &reading), Ok)?;
        if let Some(frame) = self.memory.try_get(pfn) {
            assert_eq!(self.memory.meta(frame.pfn()).unwrap().owner(), (NUMBER.get(), page));
        }
        Ok(pfn)
    }

    fn lookup(&self, page: u64) -> Option<Pfn> {
        let reading = self.rcu.read();
        self.objects.get(NUMBER, &reading)?.lookup(&self.memory, page, &reading)
    }

    fn unmap_all(&self) {
        self.objects.release(&self.memory, &self.rcu, NUMBER);
    }
}

/// Both CPUs run their part; then everything is unmapped, and as much is free as before. A CPU's part returns
/// whether it found the object; the executions in which CPU 1 missed it, and found it, are counted.
fn explore(before: fn(&World), parts: [fn(&World) -> bool; 2]) -> [usize; 2] {
    explore_and(before, parts, |_| ())
}

/// As [`explore`]; `after` looks at the object before it ends.
fn explore_and(before: fn(&World), parts: [fn(&World) -> bool; 2], after: fn(&World)) -> [usize; 2] {
    let seen: &'static [AtomicUsize; 2] = Box::leak(Box::default());
    run_model(3, move || {
        with_leaked(TestMachine::with_cpus(64, 2), |machine| {
            with_leaked(World::new(machine), |world| {
                // The caches and pools of both CPUs are touched before there are threads.
                for cpu in [1, 0] {
                    TestCpu::become_cpu(cpu);
                    drop(world.memory.alloc_zeroed(Priority::Normal));
                    world.rcu.poll(machine, &world.memory);
                }
                let allocated = world.memory.check().unwrap().allocated;
                world.objects.create(&world.memory, &world.rcu, NUMBER, (PAGES, 1)).unwrap();
                before(world);
                refill_zeros();
                let cpu1 = thread::spawn(move || {
                    TestCpu::become_cpu(1);
                    parts[1](world)
                });
                parts[0](world);
                let found = cpu1.join().unwrap();
                seen[usize::from(found)].fetch_add(1, Relaxed);
                after(world);
                world.unmap_all();
                world.rcu.wait(machine, &world.memory);
                TestCpu::become_cpu(1);
                world.rcu.wait(machine, &world.memory);
                TestCpu::become_cpu(0);
                world.memory.shrink_slab_pools();
                assert_eq!(world.memory.check().unwrap().allocated, allocated);
                let kinds = machine.frames().start.0..machine.frames().end.0;
                let mut kinds = kinds.filter_map(|pfn| Some(world.memory.meta(Pfn(pfn))?.state().kind()));
                assert!(kinds.all(|kind| kind != Kind::Object && kind != Kind::Table));
            });
        });
    });
    seen.each_ref().map(|count| count.load(Relaxed))
}

#[test]
fn loom_two_faults_fill_one_page_of_an_object() {
    let fill: fn(&World) -> bool = |world| {
        let pfn = world.find_or_fill(0).unwrap();
        assert_eq!(world.lookup(0), Some(pfn), "the page has two frames");
        true
    };
    explore(|_| (), [fill; 2]);
}

/// The last page is unmapped while a fault of a mapping that is stale fills one.
#[test]
fn loom_a_fault_fills_a_page_of_an_object_that_dies() {
    let die: fn(&World) -> bool = |world| {
        world.unmap_all();
        true
    };
    let seen = explore(|_| (), [die, |world| world.find_or_fill(0).is_ok()]);
    assert!(seen.iter().all(|&count| count > 0), "the object is to be found and missed: {seen:?}");
}

/// A page that has a frame is found while the index grows above it.
#[test]
fn loom_a_page_of_an_object_is_found_while_its_index_grows() {
    let grow: fn(&World) -> bool = |world| world.find_or_fill(600).is_ok();
    let find: fn(&World) -> bool = |world| {
        assert!(world.lookup(0).is_some(), "a page that has a frame is missed");
        true
    };
    explore(|world| assert!(world.find_or_fill(0).is_ok()), [grow, find]);
}

/// No other thread holds a lock then: the exchange decides.
#[test]
fn loom_a_frame_is_taken_out_of_an_object_once() {
    let take: fn(&World) -> bool = |world| {
        let reading = world.rcu.read();
        let object = world.objects.get(NUMBER, &reading).unwrap();
        object.take_out(&world.memory, 0, &reading).is_some()
    };
    let seen = explore(|world| assert!(world.find_or_fill(0).is_ok()), [take; 2]);
    assert!(seen.iter().all(|&count| count > 0), "each CPU is to get the frame: {seen:?}");
}

/// A reader that is in a node of an object that dies does not see the frame used anew.
#[test]
fn loom_an_index_is_read_while_its_object_dies() {
    let die: fn(&World) -> bool = |world| {
        world.unmap_all();
        true
    };
    let find: fn(&World) -> bool = |world| world.lookup(600).is_some();
    let seen = explore(|world| assert!(world.find_or_fill(600).is_ok()), [die, find]);
    assert!(seen.iter().all(|&count| count > 0), "the page is to be found and missed: {seen:?}");
}

impl World {
    fn mark(&self, page: u64) -> bool {
        let reading = self.rcu.read();
        let object = self.objects.get(NUMBER, &reading).unwrap();
        object.mark_dirty(&self.memory, page, &reading)
    }

    /// The first dirty page. A search of all pages clears what marks of nodes are wrong.
    fn first_dirty(&self) -> Option<u64> {
        let reading = self.rcu.read();
        let object = self.objects.get(NUMBER, &reading).unwrap();
        object.first_dirty(&self.memory, &(0..1 << 20), &reading)
    }
}

/// The node says that something below it is dirty, which is not so: a search takes its mark.
#[test]
fn loom_a_page_is_marked_beside_a_search_that_finds_none() {
    let search: fn(&World) -> bool = |world| world.first_dirty().is_some();
    let mark: fn(&World) -> bool = |world| {
        assert!(world.mark(1));
        assert_eq!(world.first_dirty(), Some(1), "a dirty page is not found");
        true
    };
    let before: fn(&World) = |world| {
        assert!(world.find_or_fill(0).is_ok() && world.find_or_fill(1).is_ok());
        assert!(world.mark(1));
        let reading = world.rcu.read();
        assert!(world.objects.get(NUMBER, &reading).unwrap().clean(&world.memory, 1, &reading));
    };
    explore(before, [search, mark]);
}

/// A taller node takes the root's place, with the marks that it finds there.
#[test]
fn loom_a_page_is_marked_while_its_index_grows() {
    let grow: fn(&World) -> bool = |world| world.find_or_fill(600).is_ok();
    let mark: fn(&World) -> bool = |world| {
        assert!(world.mark(0));
        true
    };
    explore_and(
        |world| assert!(world.find_or_fill(0).is_ok()),
        [grow, mark],
        |world| {
            assert_eq!(world.first_dirty(), Some(0), "a dirty page is not found");
        },
    );
}
