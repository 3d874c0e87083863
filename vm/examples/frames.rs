//! Frames alone: a platform of 22 lines, and blocks of its memory. `cargo run -p interleaf --example frames`

use interleaf::frame::{AllocRequest, BootMap, Init, Memory, Region, RegionKind};
use interleaf::machine::{Context, Cpu, Machine};
use interleaf::table::format::X86_64;
use interleaf::units::{NodeId, Order, PfnRange, PhysAddr};
use std::ptr::{NonNull, with_exposed_provenance_mut};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

thread_local!(static CONTEXT: Context = const { Context::new() });
enum OneCpu {}
// SAFETY: each thread is the one CPU of a machine (8), and no handler runs: the defaults hold. Each thread
// has a context (3).
unsafe impl Cpu for OneCpu {
    type CpuWords = [u64; 1];
    fn with_context<R>(f: impl FnOnce(&Context) -> R) -> R {
        CONTEXT.with(f)
    }
}

struct Ram(PfnRange, AtomicBool);
// SAFETY: a physical address is the host's own, of memory that is leaked (1) and claimed once (8).
unsafe impl Machine for Ram {
    type Cpu = OneCpu;
    type Format = X86_64;
    fn window(&self, at: PhysAddr) -> NonNull<u8> {
        NonNull::new(with_exposed_provenance_mut(at.0 as usize)).expect("frame 0 is no memory")
    }
    fn phys_of(&self, at: NonNull<u8>) -> PhysAddr {
        PhysAddr(at.addr().get() as u64)
    }
    fn claim_memory(&self, frames: &[PfnRange]) -> bool {
        frames.iter().all(|it| self.0.covers(*it)) && !self.1.swap(true, Relaxed)
    }
}

#[derive(Clone)]
#[repr(C, align(4096))]
struct Page([u8; 4096]);

fn main() {
    let start = PhysAddr(vec![Page([0; 4096]); 1024].leak().as_mut_ptr().expose_provenance() as u64);
    let ram = Ram(PfnRange::new(start.pfn(), start.pfn().add(1024)), AtomicBool::new(false));
    let kind = RegionKind::Usable(Init::Zeroed);
    let map = BootMap::new(&[Region { start, len_bytes: 1024 * 4096, kind, node: NodeId(0) }]);
    let memory = Memory::new(&ram, map.expect("one region")).expect("4 MiB are enough");
    let frame = memory.alloc_frame(AllocRequest::ZEROED).expect("there is memory");
    let block = memory.alloc(Order(5), AllocRequest::ZEROED).expect("there is memory");
    println!("{:?}, and 128 KiB at {:?}", frame.pfn(), block.pfn());
    drop((frame, block)); // both are free again
    println!("{:?}", memory.check().expect("frames add up"));
}

#[test]
fn runs() {
    main();
}
