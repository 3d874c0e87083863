//! The task with interleaf.

use super::{PAGE, Seen, board};
use interleaf::frame::{BootMap, Init, Region, RegionKind};
use interleaf::machine::{Context, Cpu, Machine, RootTable};
use interleaf::space::{AddressSpace, Fault, Layout, MapRequest, Path, Vm};
use interleaf::table::format::X86_64;
use interleaf::units::{Access, NodeId, PfnRange, PhysAddr, VirtAddr, VpnRange};
use interleaf::vma::VmaFlags;
use std::ptr::{NonNull, with_exposed_provenance_mut};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

// task: platform
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
// SAFETY: a physical address is the host's own, of memory that is leaked (1) and claimed once (8); no
// hardware translates (3).
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
    fn load_root(&self, _: Option<RootTable>) {}
    fn flush_range(&self, _: VpnRange) {}
}
// task: end

// task: space
pub fn run() -> Seen {
    let start = PhysAddr(board(2048));
    let ram = Ram(PfnRange::new(start.pfn(), start.pfn().add(2048)), AtomicBool::new(false));
    let kind = RegionKind::Usable(Init::Zeroed);
    let map = BootMap::new(&[Region { start, len_bytes: 2048 * PAGE, kind, node: NodeId(0) }]);
    let vm = Vm::new(&ram, map.unwrap()).unwrap();
    let used = || vm.memory().check().unwrap().allocated;
    let before = used();
    let space = AddressSpace::new(&vm, Layout::linux::<X86_64>(), Path::Speculative).unwrap();
    let active = space.activate(None);
    let base = space.map(&MapRequest::anonymous(256 * PAGE)).unwrap().0;
    let fault = |page: u64, access| space.fault(Fault { addr: VirtAddr(base + page * PAGE), access }).is_ok();
    let written = (0..256).filter(|&page| fault(page, Access::Write)).count();
    space.protect(VirtAddr(base + 16 * PAGE), 16 * PAGE, VmaFlags::READ).unwrap();
    let writable = (0..256).filter(|&page| fault(page, Access::Write)).count();
    let readable = (0..256).filter(|&page| fault(page, Access::Read)).count();
    space.unmap(VirtAddr(base + 64 * PAGE), 128 * PAGE).unwrap();
    let left = (0..256).filter(|&page| fault(page, Access::Read)).count();
    space.unmap(VirtAddr(base), 256 * PAGE).unwrap();
    drop(active);
    drop(space);
    vm.trim();
    Seen { written, writable, readable, left, lost: used() - before }
}
// task: end
