//! Embedding the library: a platform in one page, and a program's memory on it.
//!
//! The platform is as small as one can be: one CPU, memory from the host's allocator, no MMU of its own (so
//! nothing is ever cached), no other CPU to interrupt. A kernel fills in the same two traits with its direct
//! map, `invlpg`, and its interrupt controller, and runs `machine::conformance` on them.
//!
//! ```text
//! cargo run --package interleaf --example embed
//! ```

use interleaf::frame::{BootMap, Init, Region, RegionKind};
use interleaf::machine::{Callback, Context, Cpu, Irq, Machine, RootTable, TablePage};
use interleaf::space::{AddressSpace, Counter, Fault, FaultError, Layout, MapRequest, Outcome, Path, Vm};
use interleaf::table::format::X86_64;
use interleaf::units::{
    Access, CpuId, CpuMask, NodeId, Order, PAGE_SIZE, Pfn, PfnRange, PhysAddr, VirtAddr, VpnRange,
};
use std::cell::UnsafeCell;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::Instant;

/// The one CPU.
enum OneCpu {}

thread_local!(static CONTEXT: Context = const { Context::new() });

// SAFETY: 1: CPU 0 of 1. 2, 3: the program starts no thread; each thread has a context of its own. 4: no CPU
// sends an interrupt. 5: nothing sleeps. 6: nothing is observed. 7: there is no handler. 8: one machine.
unsafe impl Cpu for OneCpu {
    type CpuWords = [u64; 1];

    fn id() -> CpuId {
        CpuId(0)
    }
    fn with_context<R>(f: impl FnOnce(&Context) -> R) -> R {
        CONTEXT.with(f)
    }
    fn relax() {
        std::hint::spin_loop();
    }
    fn sleep(_word: &AtomicU32, _expected: u32) {
        unreachable!("one thread never waits for another");
    }
    fn wake(_word: &AtomicU32, _count: u32) {}
    fn interrupts_off() -> Irq {
        Irq(0)
    }
    unsafe fn interrupts_restore(_state: Irq) {}
    fn preempt_off() {}
    unsafe fn preempt_on() {}
    fn now_ns() -> u64 {
        thread_local!(static START: Instant = Instant::now());
        START.with(|start| start.elapsed().as_nanos() as u64)
    }
}

/// Host memory that stands for physical memory, from physical address 0 on.
struct FlatMachine {
    memory: NonNull<TablePage>,
    frames: usize,
    is_claimed: AtomicBool,
}

// SAFETY: there is one thread.
unsafe impl Sync for FlatMachine {}

impl FlatMachine {
    fn new(frames: usize) -> Self {
        let pages: Box<[TablePage]> =
            (0..frames).map(|_| TablePage { words: [const { UnsafeCell::new(0) }; 512] }).collect();
        Self { memory: NonNull::from(Box::leak(pages)).cast(), frames, is_claimed: AtomicBool::new(false) }
    }

    /// The memory map that firmware would report. Frame 0 is reserved, so that a null pointer stays invalid.
    fn boot_map(&self) -> BootMap {
        let usable = Region {
            start: PhysAddr(PAGE_SIZE as u64),
            len_bytes: ((self.frames - 1) * PAGE_SIZE) as u64,
            kind: RegionKind::Usable(Init::Zeroed),
            node: NodeId(0),
        };
        BootMap::new(&[usable]).expect("one sound region")
    }
}

// SAFETY: 1: the window is one leaked allocation; both directions are one addition, checked. 2: `table` is
// the window. 3: no translation is ever cached. 4: there is no other CPU to interrupt. 5: one thread needs no
// barrier. 6: lengths are those asked for, within one frame or block, and `window` checks the start. 8: all
// of the allocation is for the library, and is claimed once.
unsafe impl Machine for FlatMachine {
    type Cpu = OneCpu;
    type Format = X86_64;

    fn nr_cpus(&self) -> u32 {
        1
    }
    fn window(&self, at: PhysAddr) -> NonNull<u8> {
        assert!((at.0 as usize) < self.frames * PAGE_SIZE, "{at:?} is beyond memory");
        // SAFETY: just checked to lie in the allocation.
        unsafe { self.memory.cast::<u8>().add(at.0 as usize) }
    }
    fn phys_of(&self, at: NonNull<u8>) -> PhysAddr {
        PhysAddr((at.as_ptr() as usize - self.memory.as_ptr() as usize) as u64)
    }
    unsafe fn table(&self, pfn: Pfn) -> &TablePage {
        // SAFETY: by the caller's promise a frame of the allocation, aligned, for the life of the machine.
        unsafe { self.window(pfn.addr()).cast().as_ref() }
    }
    fn claim_memory(&self, frames: &[PfnRange]) -> bool {
        let memory = PfnRange::new(Pfn(0), Pfn(self.frames as u64));
        frames.iter().all(|range| memory.covers(*range)) && !self.is_claimed.swap(true, Relaxed)
    }
    unsafe fn zero(&self, pfn: Pfn, order: Order) {
        // SAFETY: the block is the caller's and lies in the allocation.
        unsafe { self.window(pfn.addr()).write_bytes(0, order.bytes()) }
    }
    unsafe fn copy(&self, from: Pfn, to: Pfn, order: Order) {
        // SAFETY: both blocks are the caller's and lie in the allocation.
        unsafe { self.window(to.addr()).copy_from(self.window(from.addr()), order.bytes()) }
    }
    fn read(&self, pfn: Pfn, offset: usize, to: &mut [u8]) {
        assert!(offset <= PAGE_SIZE && to.len() <= PAGE_SIZE - offset, "a read leaves its frame");
        let from = self.window(pfn.addr()).as_ptr().wrapping_add(offset);
        // SAFETY: the bytes lie in a frame of the allocation; one thread has no other that writes them.
        unsafe { from.copy_to_nonoverlapping(to.as_mut_ptr(), to.len()) }
    }
    unsafe fn write(&self, pfn: Pfn, offset: usize, from: &[u8]) {
        let to = self.window(PhysAddr(pfn.addr().0 + offset as u64));
        // SAFETY: the bytes lie in a frame of the caller's.
        unsafe { to.as_ptr().copy_from_nonoverlapping(from.as_ptr(), from.len()) }
    }
    fn load_root(&self, _root: Option<RootTable>) {}
    fn flush_range(&self, _range: VpnRange) {}
    fn flush_all(&self) {}
    unsafe fn set_interrupt_handler(&self, _handler: Option<Callback<Self>>) {}
    fn interrupt(&self, _targets: &CpuMask) {}
    fn barrier_all(&self) {}
}

fn main() {
    let machine = FlatMachine::new(4096);
    let vm = Vm::new(&machine, machine.boot_map()).expect("16 MiB are enough");
    let layout = Layout::linux::<X86_64>();
    let space = AddressSpace::new(&vm, layout, Path::Speculative).expect("there is memory for a root table");

    // The system call.
    let base = space.map(&MapRequest::anonymous(1 << 20)).expect("an empty space has room for a MiB");
    println!("mapped 1 MiB at {base:?}");

    // The page-fault handler.
    let running = space.activate(None);
    for page in 0..3 {
        let addr = VirtAddr(base.0 + page * PAGE_SIZE as u64);
        let outcome = space.fault(Fault { addr, access: Access::Write });
        assert_eq!(outcome, Ok(Outcome::Speculated));
        println!("{addr:?} is in {:?}", space.resident_frame(addr.vpn()).expect("just made present").0);
    }
    let nothing = Fault { addr: VirtAddr(0), access: Access::Read };
    assert_eq!(space.fault(nothing), Err(FaultError::NotMapped));

    space.unmap(base, 1 << 20).expect("it is mapped");
    drop(running);
    drop(space);
    vm.trim();
    let census = vm.memory().check().expect("frames add up");
    println!(
        "faults {}, of them speculated {}",
        vm.totals().get(Counter::PgFault),
        vm.totals().get(Counter::SpeculativePgFault)
    );
    println!("frames: {census:?}");
}
