//! Jobs alone: work over a range, done by the caller and by helpers on other CPUs.
//!
//! A CPU is a host thread. The platform says how a thread finds its CPU, sleeps and is woken, and starts
//! helpers; no frames are allocated, and nothing is mapped. `cargo run -p interleaf --example jobs`

use interleaf::frame::{BootMap, Init, Region, RegionKind};
use interleaf::machine::{Callback, Context, Cpu, Machine};
use interleaf::table::format::X86_64;
use interleaf::units::{CpuId, NodeId, PfnRange, PhysAddr};
use interleaf::work::{Chunk, Job, WorkerPool};
use std::cell::Cell;
use std::ptr::{NonNull, with_exposed_provenance, with_exposed_provenance_mut};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};
use std::sync::{Condvar, Mutex};
use std::thread::{self, JoinHandle};

const CPUS: u32 = 4;

thread_local! {
    static CONTEXT: Context = const { Context::new() };
    static ID: Cell<u32> = const { Cell::new(0) };
}

/// Where all threads sleep.
static SLEEPERS: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());

enum Core {}

// SAFETY: 1: the first thread is CPU 0, and each helper starts as a CPU of its own. 2: a CPU runs that thread
// alone. 3: thread-local. 5: `sleep` looks at the word under the lock that `wake` takes. No handler
// interrupts a CPU: the defaults keep the others.
unsafe impl Cpu for Core {
    type CpuWords = [u64; 1];
    const SEVERAL_MACHINES: bool = false;
    fn id() -> CpuId {
        CpuId(ID.get())
    }
    fn with_context<R>(f: impl FnOnce(&Context) -> R) -> R {
        CONTEXT.with(f)
    }
    fn yield_now() {
        thread::yield_now();
    }
    fn sleep(word: &AtomicU32, expected: u32) {
        let guard = SLEEPERS.0.lock().unwrap();
        if word.load(SeqCst) == expected {
            drop(SLEEPERS.1.wait(guard).unwrap());
        }
    }
    fn wake(_: &AtomicU32, _: u32) {
        let _guard = SLEEPERS.0.lock().unwrap();
        SLEEPERS.1.notify_all();
    }
}

struct HostCpus {
    ram: PfnRange,
    is_claimed: AtomicBool,
    helpers: Mutex<Vec<JoinHandle<()>>>,
}

// SAFETY: a physical address is the host's own, of memory that is leaked (1) and claimed once (8). 7: a board
// is leaked; helpers are joined when their handler is removed. No handler of interrupts is set, and there is
// no barrier: those defaults would panic.
unsafe impl Machine for HostCpus {
    type Cpu = Core;
    type Format = X86_64;
    fn nr_cpus(&self) -> u32 {
        CPUS
    }
    fn window(&self, at: PhysAddr) -> NonNull<u8> {
        NonNull::new(with_exposed_provenance_mut(at.0 as usize)).expect("frame 0 is no memory")
    }
    fn phys_of(&self, at: NonNull<u8>) -> PhysAddr {
        PhysAddr(at.addr().get() as u64)
    }
    fn claim_memory(&self, frames: &[PfnRange]) -> bool {
        frames.iter().all(|it| self.ram.covers(*it)) && !self.is_claimed.swap(true, Relaxed)
    }
    unsafe fn set_helper_handler(&self, handler: Option<Callback<Self>>) -> bool {
        let mut helpers = self.helpers.lock().unwrap();
        if handler.is_some() && !helpers.is_empty() {
            return false;
        }
        helpers.drain(..).for_each(|helper| helper.join().unwrap());
        let board = (&raw const *self).expose_provenance();
        let Some(Callback { call, data }) = handler else { return true };
        helpers.extend((1..CPUS).map(|cpu| {
            thread::spawn(move || {
                ID.set(cpu);
                // SAFETY: boards are leaked. By the caller's promise the function may be called with its
                // data.
                unsafe { call(&*with_exposed_provenance::<Self>(board), data) }
            })
        }));
        true
    }
}

#[derive(Clone)]
#[repr(C, align(4096))]
struct Page([u8; 4096]);

/// A board that is never freed: its helpers may run as long as the program does.
fn board() -> (&'static HostCpus, BootMap) {
    let start = PhysAddr(vec![Page([0; 4096]); 64].leak().as_mut_ptr().expose_provenance() as u64);
    let ram = PfnRange::new(start.pfn(), start.pfn().add(64));
    let kind = RegionKind::Usable(Init::Zeroed);
    let map = BootMap::new(&[Region { start, len_bytes: 64 * 4096, kind, node: NodeId(0) }]);
    let board = HostCpus { ram, is_claimed: AtomicBool::new(false), helpers: Mutex::new(Vec::new()) };
    (Box::leak(Box::new(board)), map.expect("one region"))
}

fn main() {
    let (board, map) = board();
    let mut memory = map.claim(board).expect("it is free");
    let workers = WorkerPool::spawn(board, &mut memory.early_allocator()).expect("64 frames are enough");

    let slots: Vec<AtomicU64> = (0..1 << 16).map(|_| AtomicU64::new(0)).collect();
    let by_cpu = [const { AtomicU64::new(0) }; CPUS as usize];
    let square = |chunk: &Chunk<'_>| {
        for slot in chunk.range() {
            slots[slot as usize].store(slot * slot, Relaxed);
            chunk.done_to(slot + 1);
        }
        by_cpu[Core::id().index()].fetch_add(chunk.range().end - chunk.range().start, Relaxed);
        Ok::<(), ()>(())
    };
    workers.run(&Job::new(0..slots.len() as u64, square).min_chunk(256)).expect("nothing fails");
    assert!((0..).zip(&slots).all(|(slot, square)| square.load(Relaxed) == slot * slot));
    println!("slots filled by each CPU: {by_cpu:?}");

    // A job that fails is undone, and tells where.
    let fails =
        |chunk: &Chunk<'_>| if chunk.range().contains(&40_000) { Err("40000 is odd") } else { Ok(()) };
    println!("{:?}", workers.run(&Job::new(0..slots.len() as u64, fails).min_chunk(256)).unwrap_err());
}

#[test]
fn runs() {
    main();
}
