//! Tables alone: a guest's memory and a device in Intel EPT, without an address space.
//!
//! The platform is that of `frames.rs`, and one type: the format. The hypervisor's flush is INVEPT; here it
//! counts. `cargo run -p interleaf --example tables`

use interleaf::frame::{AllocRequest, BootMap, Init, Memory, Region, RegionKind};
use interleaf::machine::{CacheType, Context, Cpu, Machine};
use interleaf::sync::Rcu;
use interleaf::table::format::Ept;
use interleaf::table::{MapError, Mapper, PfnMapFrames};
use interleaf::units::{NodeId, Order, PageSize, Pfn, PfnRange, PhysAddr, Rights, Vpn, VpnRange};
use std::cell::Cell;
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
    type Format = Ept;
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

const RW: Rights = Rights::READ.union(Rights::WRITE).union(Rights::USER);

fn main() -> Result<(), MapError> {
    let start = PhysAddr(vec![Page([0; 4096]); 4096].leak().as_mut_ptr().expose_provenance() as u64);
    let ram = Ram(PfnRange::new(start.pfn(), start.pfn().add(4096)), AtomicBool::new(false));
    let kind = RegionKind::Usable(Init::Zeroed);
    let map = BootMap::new(&[Region { start, len_bytes: 4096 * 4096, kind, node: NodeId(0) }]);
    let memory = Memory::new(&ram, map.expect("one region")).expect("16 MiB are enough");
    let rcu = Rcu::carve(&mut memory.boot_allocator(), 1).expect("there is memory");

    let flushed = Cell::new(0);
    let flush = |pages: VpnRange| flushed.set(flushed.get() + pages.len());
    let stage2 = Mapper::new(&memory, &rcu, flush).expect("there is memory");

    // Guest memory: 2 MiB that this program keeps allocated for the guest alone. A device: its registers.
    let block = memory.alloc(Order(9), AllocRequest::ZEROED).expect("there is memory");
    // SAFETY: nothing else uses the block, which is freed after the mapper; no hardware follows these tables.
    let guest = unsafe { PfnMapFrames::new(block.frames(), Rights::all(), CacheType::WriteBack) };
    let registers = PfnRange::new(Pfn(0xf_ee00), Pfn(0xf_ee01));
    // SAFETY: no hardware follows these tables, so nothing reaches the registers.
    let device = unsafe { PfnMapFrames::new(registers, RW, CacheType::Device) };

    stage2.map(Vpn(0), &guest, guest.frames(), PageSize::Base, RW | Rights::EXECUTE)?;
    stage2.map(Vpn(0xf_ee00), &device, device.frames(), PageSize::Base, RW)?;
    let (leaf, size) = stage2.query(Vpn(5)).expect("mapped");
    println!("guest page 5 is {:?}, {size:?}, {:?}", leaf.pfn, leaf.rights);
    assert_eq!((leaf.pfn, size), (block.pfn().add(5), PageSize::Base));

    // Dirty logging: no page may be written until the guest has faulted on it.
    stage2.protect(VpnRange::new(Vpn(0), Vpn(512)), Rights::READ | Rights::USER, &guest)?;
    assert!(!stage2.query(Vpn(5)).expect("mapped").0.rights.contains(Rights::WRITE));
    stage2.protect(VpnRange::new(Vpn(5), Vpn(6)), RW, &guest)?;
    assert_eq!(stage2.protect(VpnRange::new(Vpn(5), Vpn(6)), RW, &device), Err(MapError::NotAllowed));

    assert_eq!(stage2.unmap(VpnRange::new(Vpn(0), Vpn(512)))?, 512);
    assert_eq!(stage2.query(Vpn(5)), None);
    println!("{} pages flushed", flushed.get());
    drop(stage2); // the tables are freed; the guest's block is still allocated
    rcu.wait(&ram, &memory);
    drop(block);
    println!("{:?}", memory.check().expect("frames add up"));
    Ok(())
}

#[test]
fn runs() {
    main().unwrap();
}
