//! A program's memory on RISC-V Sv39, checked by a walker that was written from the manual alone.
//!
//! The walker stands for the hart's: it translates what the program accesses, marks the entries that it uses,
//! and an access that it refuses is a page fault. `cargo run -p interleaf --example riscv`

use interleaf::frame::{BootMap, Init, Region, RegionKind};
use interleaf::machine::{Context, Cpu, Machine, RootTable};
use interleaf::space::{AddressSpace, Fault, FaultError, Layout, MapRequest, Path, Vm};
use interleaf::table::format::Sv39;
use interleaf::units::{Access, NodeId, PfnRange, PhysAddr, VirtAddr, VpnRange};
use interleaf::vma::VmaFlags;
use std::ptr::{NonNull, with_exposed_provenance, with_exposed_provenance_mut};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};

/// The library's own tests use the same walker.
#[path = "../src/table/tests/walkers/riscv.rs"]
mod walker;

thread_local!(static CONTEXT: Context = const { Context::new() });
enum Hart {}
// SAFETY: each thread is the one CPU of a machine (8), and no handler runs: the defaults hold. Each thread
// has a context (3).
unsafe impl Cpu for Hart {
    type CpuWords = [u64; 1];
    fn with_context<R>(f: impl FnOnce(&Context) -> R) -> R {
        CONTEXT.with(f)
    }
}

/// Memory where the host has it, and `satp`.
struct RiscvMachine {
    ram: PfnRange,
    is_claimed: AtomicBool,
    satp: AtomicU64,
}

// SAFETY: a physical address is the host's own, of memory that is leaked (1) and claimed once (8). The walker
// caches nothing (3).
unsafe impl Machine for RiscvMachine {
    type Cpu = Hart;
    type Format = Sv39;
    fn window(&self, at: PhysAddr) -> NonNull<u8> {
        NonNull::new(with_exposed_provenance_mut(at.0 as usize)).expect("frame 0 is no memory")
    }
    fn phys_of(&self, at: NonNull<u8>) -> PhysAddr {
        PhysAddr(at.addr().get() as u64)
    }
    fn claim_memory(&self, frames: &[PfnRange]) -> bool {
        frames.iter().all(|it| self.ram.covers(*it)) && !self.is_claimed.swap(true, Relaxed)
    }
    fn load_root(&self, root: Option<RootTable>) {
        self.satp.store(root.map_or(0, |root| root.pfn().addr().0), Relaxed);
    }
    fn flush_range(&self, _: VpnRange) {}
}

impl RiscvMachine {
    /// A word of memory, which must be there.
    fn word(&self, at: u64) -> &AtomicU64 {
        assert!(self.ram.contains(PhysAddr(at).pfn()) && at.is_multiple_of(8), "no word at {at:#x}");
        // SAFETY: just checked to lie in memory, aligned; programs' memory and tables are atomics.
        unsafe { &*with_exposed_provenance(at as usize) }
    }

    /// The word that a user instruction reaches; `None` is a page fault.
    fn reach(&self, at: VirtAddr, access: u8) -> Option<&AtomicU64> {
        let load = |word| self.word(word).load(Acquire);
        let (physical, entry, marked) = walker::walk(3, self.satp.load(Relaxed), at.0, access, true, &load)?;
        self.word(entry).store(marked, Relaxed);
        Some(self.word(physical))
    }
}

#[derive(Clone)]
#[repr(C, align(4096))]
struct Page([u8; 4096]);

/// One instruction of the program, as its hart and the kernel's trap handler execute it.
fn execute<'b>(
    board: &'b RiscvMachine,
    space: &AddressSpace<'_, RiscvMachine>,
    at: VirtAddr,
    access: Access,
) -> &'b AtomicU64 {
    let letter = if access == Access::Write { b'w' } else { b'r' };
    for _ in 0..3 {
        match board.reach(at, letter) {
            Some(word) => return word,
            None => drop(space.fault(Fault { addr: at, access }).expect("it is mapped")),
        }
    }
    panic!("the hart refuses {access:?} at {at:?} after faults");
}

fn main() {
    let start = PhysAddr(vec![Page([0; 4096]); 4096].leak().as_mut_ptr().expose_provenance() as u64);
    let ram = PfnRange::new(start.pfn(), start.pfn().add(4096));
    let board = RiscvMachine { ram, is_claimed: AtomicBool::new(false), satp: AtomicU64::new(0) };
    let kind = RegionKind::Usable(Init::Zeroed);
    let map = BootMap::new(&[Region { start, len_bytes: 4096 * 4096, kind, node: NodeId(0) }]);
    let vm = Vm::new(&board, map.expect("one region")).expect("16 MiB are enough");
    let space = AddressSpace::new(&vm, Layout::linux::<Sv39>(), Path::Speculative).expect("memory");
    let running = space.activate(None);

    let base = space.map(&MapRequest::anonymous(1 << 20)).expect("room");
    let page = |n: u64| VirtAddr(base.0 + n * 4096);
    for n in 0..256 {
        execute(&board, &space, page(n), Access::Write).store(n + 1, Relaxed);
    }
    let sum: u64 = (0..256).map(|n| execute(&board, &space, page(n), Access::Read).load(Relaxed)).sum();
    assert_eq!(sum, 256 * 257 / 2);
    println!("256 pages at {base:?} hold what was written");

    // The kernel takes rights away, and a page.
    space.protect(page(7), 4096, VmaFlags::READ).expect("mapped");
    assert!(board.reach(page(7), b'w').is_none() && board.reach(page(7), b'r').is_some());
    let store = Fault { addr: page(7), access: Access::Write };
    assert_eq!(space.fault(store), Err(FaultError::NotAllowed));
    space.unmap(page(8), 4096).expect("mapped");
    assert!(board.reach(page(8), b'r').is_none());
    assert_eq!(space.fault(Fault { addr: page(8), access: Access::Read }), Err(FaultError::NotMapped));
    println!("Sv39 refuses what the space refuses");

    drop(running);
    drop(space);
    vm.trim();
    println!("{:?}", vm.memory().check().expect("frames add up"));
}

#[test]
fn runs() {
    main();
}
