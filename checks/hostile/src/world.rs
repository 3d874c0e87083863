//! Machines and memory that are abused, and the workload that shows that they still work.

use interleaf::space::{AddressSpace, Layout, MapRequest, Path, Vm};
use interleaf::sync::Carve;
use interleaf::table::format::X86_64;
use interleaf::units::{CpuId, VirtAddr};
use interleaf_check::drive::Faults;
use interleaf_check::recount::QuiescentSystem;
use interleaf_lab::machine::host::Host;
use interleaf_lab::machine::soft::boot_map;
use interleaf_lab::machine::soft::{MachineConfig, SoftMachine};
use std::alloc::Layout as MemoryLayout;
use std::mem::MaybeUninit;

/// The machine that everything runs on.
pub type Lab = SoftMachine<Host, X86_64>;

/// Frames of a machine.
pub const FRAMES: u64 = 4096;

/// Calls `f` on CPU 0 of a new machine with two CPUs.
pub fn on_cpu<R>(f: impl FnOnce(&Lab) -> R) -> R {
    let machine = Lab::new(&MachineConfig::small(2, FRAMES)).expect("a machine");
    let _cpu = machine.enter(CpuId(0));
    f(&machine)
}

/// As [`on_cpu`], on a thread of its own that ends on its CPU: for what leaves preemption off for ever, as a
/// guard does that is forgotten.
pub fn on_lost_cpu(f: impl FnOnce(&Lab) + Send) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let machine = Lab::new(&MachineConfig::small(2, FRAMES)).expect("a machine");
            std::mem::forget(machine.enter(CpuId(0)));
            f(&machine);
        });
    });
}

/// Calls `f` on CPU 0 of a new machine with memory; afterwards that must still work.
pub fn with_vm<R>(f: impl FnOnce(&Lab, &Vm<'_, Lab>) -> R) -> R {
    on_cpu(|machine| {
        let vm = Vm::new(machine, boot_map(machine)).expect("memory");
        let result = f(machine, &vm);
        must_work(machine, &vm);
        result
    })
}

/// The reference workload: maps, writes, reads back and unmaps pages, and counts all frames.
///
/// # Panics
/// Where anything is not as it should be.
pub fn must_work(machine: &Lab, vm: &Vm<'_, Lab>) {
    let before = vm.memory().check().expect("frames add up").allocated;
    {
        let layout = Layout::linux::<X86_64>().overcommit();
        let space = AddressSpace::new(vm, layout, Path::Speculative).expect("memory for a space");
        let _running = space.activate(None);
        use_pages(machine, &space);
    }
    vm.trim();
    let after = vm.memory().check().expect("frames add up").allocated;
    assert!(after <= before, "{after} frames allocated, {before} before");
    assert_eq!(machine.violations(), [], "a TLB saw the impossible");
}

/// Maps, writes, reads back and unmaps pages of a space that this CPU runs.
pub fn use_pages(machine: &Lab, space: &AddressSpace<'_, Lab>) {
    const PAGES: u64 = 600;
    let faults = Faults::new(space);
    let base = space.map(&MapRequest::anonymous(PAGES * 4096)).expect("room");
    let page = |nth: u64| VirtAddr(base.0 + nth * 4096);
    for nth in 0..PAGES {
        assert_eq!(machine.read_u64(page(nth), &faults), Ok(0), "new memory is zero");
        machine.write_u64(page(nth), nth ^ 0x5a5a, &faults).expect("mapped to write");
    }
    for nth in 0..PAGES {
        assert_eq!(machine.read_u64(page(nth), &faults), Ok(nth ^ 0x5a5a), "memory keeps what was written");
    }
    space.unmap(base, PAGES * 4096).expect("it is mapped");
    assert!(machine.read_u64(base, &faults).is_err(), "what is unmapped is gone");
}

/// Recounts everything: for spaces to which nothing was done behind their back.
///
/// # Panics
/// Where something does not add up.
pub fn must_add_up<'v>(machine: &Lab, vm: &Vm<'v, Lab>, spaces: &[&AddressSpace<'v, Lab>], path: Path) {
    QuiescentSystem { machine, vm, spaces, path }.must_hold();
}

/// Ordinary memory that is never freed, carved.
#[derive(Debug)]
pub struct Heap;

impl Carve<'static> for Heap {
    fn carve(&mut self, layout: MemoryLayout) -> Option<&'static mut [MaybeUninit<u8>]> {
        if layout.size() > 1 << 24 {
            return None;
        }
        let bytes = leak(layout.size() + layout.align());
        let skip = bytes.as_ptr().align_offset(layout.align());
        Some(&mut bytes[skip..][..layout.size()])
    }
}

/// Bytes that are never freed.
pub fn leak(len: usize) -> &'static mut [MaybeUninit<u8>] {
    let mut bytes = Vec::new();
    bytes.resize_with(len, MaybeUninit::uninit);
    Vec::leak(bytes)
}

/// A carver that lies about what was asked for.
#[derive(Clone, Copy, Debug)]
pub enum LyingCarve {
    /// Returns too little.
    Small,
    /// Returns memory that is not aligned.
    Crooked,
    /// Returns no byte.
    Empty,
    /// Returns nothing.
    None,
    /// Panics.
    Panic,
}

impl LyingCarve {
    /// All lies.
    pub const ALL: [Self; 5] = [Self::Small, Self::Crooked, Self::Empty, Self::None, Self::Panic];
}

impl Carve<'static> for LyingCarve {
    fn carve(&mut self, layout: MemoryLayout) -> Option<&'static mut [MaybeUninit<u8>]> {
        match self {
            Self::Small => Some(leak((layout.size() / 2).min(1 << 20))),
            Self::Crooked => {
                let bytes = leak((layout.size().min(1 << 20)) + 2 * layout.align());
                let skip = bytes.as_ptr().align_offset(layout.align());
                Some(&mut bytes[skip + 1..])
            }
            Self::Empty => Some(&mut []),
            Self::None => None,
            Self::Panic => panic!("a carver that panics"),
        }
    }
}
