//! The walks of ARCHITECTURE.md are true: each path is played on the machine that records accesses, and every
//! file of the library from which one comes is named by the walk, in its list or as a door.

use interleaf::frame::{AllocRequest, Memory};
use interleaf::machine::Cpu;
use interleaf::space::{AddressSpace, Fault, Layout, MapRequest, Path, Vm};
use interleaf::table::format::X86_64;
use interleaf::units::{Access, CpuId, PAGE_SIZE, VirtAddr};
use interleaf::work::{Chunk, Job, PollLimit, WorkerPool};
use interleaf_lab::machine::soft::boot_map;
use interleaf_lab::machine::soft::{MachineConfig, SoftMachine};
use interleaf_lab::machine::watch::{Touch, Watch, record};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::thread;

type Machine = SoftMachine<Watch, X86_64>;
type Space<'v> = AddressSpace<'v, Machine>;

const PAGE: u64 = PAGE_SIZE as u64;

/// The text of the walk whose title begins so.
fn walk(title: &str) -> String {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../ARCHITECTURE.md");
    let text = std::fs::read_to_string(file).expect("ARCHITECTURE.md");
    let from = text.find(&format!("\n**{title}")).unwrap_or_else(|| panic!("no walk of {title}"));
    let walk = &text[from + 3..];
    let end = walk.find("\n**").into_iter().chain(walk.find("\n## ")).min().unwrap_or(walk.len());
    walk[..end].to_string()
}

/// Whether the walk names the file, or a folder that it lies in.
fn names(walk: &str, file: &str) -> bool {
    let is_named = |name: &str| name == file || name.ends_with('/') && file.starts_with(name);
    walk.split(|c: char| c.is_whitespace() || c == '`').any(is_named)
}

/// Fails where the walk does not name a file of the library from which an access comes.
fn assert_walk_names(title: &str, touches: &[Touch]) {
    let walk = walk(title);
    let files: BTreeSet<_> = touches.iter().map(|touch| touch.place.file()).collect();
    let of_library = files.into_iter().filter(|file| file.starts_with("vm/src/"));
    let missing: Vec<_> = of_library.filter(|file| !names(&walk, file)).collect();
    assert!(!touches.is_empty() && missing.is_empty(), "{title}: {missing:#?}");
}

fn on_one_cpu(f: impl FnOnce(&Memory<'_, Machine>, &Space<'_>)) {
    let machine = Machine::new(&MachineConfig::small(1, 8192)).expect("memory for the machine");
    let _cpu = machine.enter(CpuId(0));
    let vm = Vm::new(&machine, boot_map(&machine)).expect("memory for the records");
    let space = AddressSpace::new(&vm, Layout::linux::<X86_64>(), Path::Speculative).expect("memory");
    let _running = space.activate(None);
    f(vm.memory(), &space);
}

fn write(space: &Space<'_>, start: VirtAddr, page: u64) {
    let addr = VirtAddr(start.0 + page * PAGE);
    space.fault(Fault { addr, access: Access::Write }).expect("mapped");
}

#[test]
fn the_walk_of_a_write_fault_names_every_file_of_one() {
    on_one_cpu(|_, space| {
        let start = space.map(&MapRequest::anonymous(8 * PAGE)).expect("room");
        // They give the mapping its identity, link the tables, and fill the caches.
        (0..2).for_each(|page| write(space, start, page));
        let ((), touches) = record(|| write(space, start, 2));
        assert_walk_names("A write fault", &touches);
    });
}

#[test]
fn the_walk_of_munmap_names_every_file_of_one() {
    on_one_cpu(|_, space| {
        let map = |pages: u64| {
            let start = space.map(&MapRequest::anonymous(pages * PAGE)).expect("room");
            (0..pages.min(64)).for_each(|page| write(space, start, page));
            start
        };
        let first = map(8);
        space.unmap(first, 8 * PAGE).expect("mapped");
        let whole = map(8);
        let ((), touches) = record(|| space.unmap(whole, 8 * PAGE).expect("mapped"));
        assert_walk_names("munmap", &touches);
    });
}

#[test]
fn the_walk_of_an_allocation_names_every_file_of_one() {
    on_one_cpu(|memory, _| {
        let alloc = || memory.alloc_frame(AllocRequest::ZEROED).expect("free frames");
        drop(alloc());
        let (warm, touches) = record(alloc);
        assert_walk_names("One allocation", &touches);
        memory.drain();
        let (refilled, touches) = record(alloc);
        assert!(touches.iter().any(|touch| touch.place.file().ends_with("zone/buddy.rs")), "no refill");
        assert_walk_names("One allocation", &touches);
        drop((warm, refilled));
    });
}

#[test]
fn the_walk_of_a_job_names_every_file_of_one() {
    let machine = Machine::new(&MachineConfig::small(2, 4096)).expect("memory for the machine");
    let mut memory = boot_map(&machine).claim(&machine).expect("memory of the machine");
    let workers = WorkerPool::spawn(&machine, &mut memory.early_allocator()).expect("memory for a pool");
    workers.set_poll_limit(PollLimit::NONE);
    let helped = AtomicBool::new(false);
    let job = Job::new(0..2, |chunk: &Chunk<'_>| {
        helped.fetch_or(chunk.worker() != 0, AcqRel);
        // The caller leaves the other half to the helper.
        while !helped.load(Acquire) {
            Watch::relax();
        }
        Ok::<(), ()>(())
    });
    thread::scope(|scope| {
        let helper = scope.spawn(|| {
            let _cpu = machine.enter(CpuId(1));
            record(|| machine.help()).1
        });
        let _cpu = machine.enter(CpuId(0));
        while !workers.has_helper_racy(CpuId(1)) {
            thread::yield_now();
        }
        let (spent, touches) = record(|| workers.run(&job));
        assert_eq!(spent.map(|spent| spent.helpers), Ok(1));
        assert_walk_names("A job", &touches);
        drop(workers);
        assert_walk_names("A job", &helper.join().expect("the helper comes to its end"));
    });
}

#[test]
fn a_file_that_a_walk_does_not_name_is_missed() {
    let munmap = walk("munmap");
    assert!(names(&munmap, "vm/src/space/ops/unmap.rs") && names(&munmap, "vm/src/sync/rcu/mod.rs"));
    assert!(!names(&munmap, "vm/src/space/ops/map.rs"));
}
