//! A platform in one page: one CPU, memory from the host's allocator, no MMU of its own (so nothing is ever
//! cached), no other CPU to interrupt. A second thread is refused, by a panic of the library: the defaults of
//! `Cpu` make each thread a machine. A kernel fills in the same two traits with its direct map, `invlpg`,
//! and its interrupt controller; `docs/porting` says how.

use interleaf::frame::{BootMap, Init, Region, RegionKind};
use interleaf::machine::{Context, Cpu, Machine, RootTable};
use interleaf::table::format::X86_64;
use interleaf::units::{NodeId, PAGE_SIZE, Pfn, PfnRange, PhysAddr, VpnRange};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

/// The one CPU.
pub enum OneCpu {}

thread_local!(static CONTEXT: Context = const { Context::new() });

// SAFETY: each thread is the one CPU of a machine (8), and no handler runs: the defaults keep all rules but
// 3; each thread has a context of its own.
unsafe impl Cpu for OneCpu {
    type CpuWords = [u64; 1];

    fn with_context<R>(f: impl FnOnce(&Context) -> R) -> R {
        CONTEXT.with(f)
    }
    fn now_ns() -> u64 {
        thread_local!(static START: Instant = Instant::now());
        START.with(|start| start.elapsed().as_nanos() as u64)
    }
}

/// A frame of host memory.
#[derive(Clone)]
#[repr(C, align(4096))]
struct Page([u8; PAGE_SIZE]);

/// Host memory that stands for physical memory, from physical address 0 on.
pub struct FlatMachine {
    /// The first byte's address, whose provenance is exposed.
    memory: usize,
    frames: usize,
    is_claimed: AtomicBool,
}

impl FlatMachine {
    /// A machine with so many frames.
    pub fn new(frames: usize) -> Self {
        let memory = vec![Page([0; PAGE_SIZE]); frames].leak().as_mut_ptr().expose_provenance();
        Self { memory, frames, is_claimed: AtomicBool::new(false) }
    }

    /// The memory map that firmware would report. Frame 0 is reserved, so that a null pointer stays invalid.
    pub fn boot_map(&self) -> BootMap {
        let usable = Region {
            start: PhysAddr(PAGE_SIZE as u64),
            len_bytes: ((self.frames - 1) * PAGE_SIZE) as u64,
            kind: RegionKind::Usable(Init::Zeroed),
            node: NodeId(0),
        };
        BootMap::new(&[usable]).expect("one sound region")
    }
}

// SAFETY: 1: the window is one leaked allocation; both directions are one addition, checked. 3: no
// translation is ever cached. 8: all of the allocation is for the library, and is claimed once. The defaults,
// which are for one CPU, keep the others.
unsafe impl Machine for FlatMachine {
    type Cpu = OneCpu;
    type Format = X86_64;

    fn window(&self, at: PhysAddr) -> NonNull<u8> {
        assert!((at.0 as usize) < self.frames * PAGE_SIZE, "{at:?} is beyond memory");
        let at = std::ptr::with_exposed_provenance_mut(self.memory + at.0 as usize);
        NonNull::new(at).expect("it lies in an allocation")
    }
    fn phys_of(&self, at: NonNull<u8>) -> PhysAddr {
        PhysAddr((at.addr().get() - self.memory) as u64)
    }
    fn claim_memory(&self, frames: &[PfnRange]) -> bool {
        let memory = PfnRange::new(Pfn(0), Pfn(self.frames as u64));
        frames.iter().all(|range| memory.covers(*range)) && !self.is_claimed.swap(true, Relaxed)
    }
    fn load_root(&self, _root: Option<RootTable>) {}
    fn flush_range(&self, _range: VpnRange) {}
}
