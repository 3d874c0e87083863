//! The defaults of both traits: enough for one CPU, refused where they are not.

use crate::frame::{AllocRequest, BootMap, Init, Memory, Region, RegionKind};
use crate::machine::conformance::{self, FRAMES, Harness, Rule, Verdict};
use crate::machine::{Callback, Context, Cpu, Machine};
use crate::table::format::X86_64;
use crate::units::{CpuMask, NodeId, Order, PAGE_SIZE, PfnRange, PhysAddr, VirtAddr, VpnRange};
use core::ptr::{NonNull, with_exposed_provenance_mut};
use std::boxed::Box;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};
use std::vec;

#[derive(Debug)]
enum OneCpu {}

std::thread_local!(static CONTEXT: Context = const { Context::new() });

// SAFETY: each test is one CPU with one thread, and no handler: the defaults keep all rules but 3; each
// thread has a context of its own.
unsafe impl Cpu for OneCpu {
    type CpuWords = [u64; 1];
    fn with_context<R>(f: impl FnOnce(&Context) -> R) -> R {
        CONTEXT.with(f)
    }
}

/// Memory where the host has it; `CPUS` that it says it has.
struct Ram<const CPUS: u32> {
    frames: PfnRange,
    is_claimed: AtomicBool,
}

#[derive(Clone)]
#[repr(C, align(8192))]
struct Pair([u8; 2 * PAGE_SIZE]);

impl<const CPUS: u32> Ram<CPUS> {
    fn new(frames: u64) -> Self {
        let memory = Box::leak(vec![Pair([0; 2 * PAGE_SIZE]); frames as usize / 2].into_boxed_slice());
        let start = PhysAddr(memory.as_mut_ptr().expose_provenance() as u64).pfn();
        Self { frames: PfnRange::new(start, start.add(frames)), is_claimed: AtomicBool::new(false) }
    }
}

// SAFETY: 1: a physical address is the host's own, of memory that is leaked. 8: claimed once. The defaults
// keep the others where there is one CPU; with more nothing but they is called.
unsafe impl<const CPUS: u32> Machine for Ram<CPUS> {
    type Cpu = OneCpu;
    type Format = X86_64;
    fn nr_cpus(&self) -> u32 {
        CPUS
    }
    fn window(&self, at: PhysAddr) -> NonNull<u8> {
        NonNull::new(with_exposed_provenance_mut(at.0 as usize)).unwrap()
    }
    fn phys_of(&self, at: NonNull<u8>) -> PhysAddr {
        PhysAddr(at.addr().get() as u64)
    }
    fn claim_memory(&self, frames: &[PfnRange]) -> bool {
        frames.iter().all(|it| self.frames.covers(*it)) && !self.is_claimed.swap(true, Relaxed)
    }
}

/// Both would be the one CPU.
#[test]
fn a_second_thread_is_refused_what_the_first_has() {
    let machine = Ram::<1>::new(64);
    let kind = RegionKind::Usable(Init::Dirty);
    let start = machine.frames.start.addr();
    let region = Region { start, len_bytes: machine.frames.len() * PAGE_SIZE as u64, kind, node: NodeId(0) };
    let memory = Memory::new(&machine, BootMap::new(&[region]).unwrap()).unwrap();
    drop(memory.alloc_frame(AllocRequest::DIRTY).unwrap());
    let alloc = || catch_unwind(AssertUnwindSafe(|| memory.alloc_frame(AllocRequest::DIRTY))).is_err();
    assert!(std::thread::scope(|scope| scope.spawn(alloc).join().unwrap()));
    assert!(!alloc());
    memory.check().unwrap();
}

struct Inline;

impl Harness<Ram<1>> for Inline {
    fn run(&self, _: &Ram<1>, programs: &[&(dyn Fn() + Sync)]) {
        programs.iter().for_each(|program| program());
    }
    fn has_mmu(&self) -> bool {
        false
    }
    fn load(&self, _: &Ram<1>, _: VirtAddr) -> Option<u64> {
        None
    }
}

#[test]
fn a_platform_of_defaults_keeps_the_rules() {
    let machine = Ram::<1>::new(FRAMES);
    // SAFETY: nothing else uses the machine.
    let report = unsafe { conformance::run(&machine, &Inline, machine.frames) };
    assert!(report.holds(), "{report}");
    for rule in [Rule::IdStays, Rule::InterruptsNest, Rule::ZeroExact, Rule::CopyExact, Rule::TableIsWindow] {
        assert_eq!(report.verdict(rule), Verdict::Holds, "{report}");
    }
    for rule in [Rule::WalksTables, Rule::BarrierOrders] {
        assert_eq!(report.verdict(rule), Verdict::Untested, "{report}");
    }
}

#[test]
fn frames_need_no_more_than_the_defaults() {
    let machine = Ram::<1>::new(1024);
    let kind = RegionKind::Usable(Init::Dirty);
    let (start, len_bytes) = (machine.frames.start.addr(), 1024 * PAGE_SIZE as u64);
    let map = BootMap::new(&[Region { start, len_bytes, kind, node: NodeId(0) }]).unwrap();
    let memory = Memory::new(&machine, map).unwrap();
    let before = memory.check().unwrap();
    let block = memory.alloc(Order(4), AllocRequest::ZEROED).unwrap();
    // SAFETY: the block is the test's, and the window shows it.
    let bytes = unsafe { core::slice::from_raw_parts(machine.window(block.pfn().addr()).as_ptr(), 16 << 12) };
    assert!(bytes.iter().all(|byte| *byte == 0));
    drop(block);
    assert_eq!(memory.check().unwrap().allocated, before.allocated);
}

#[test]
fn a_sleeper_that_nobody_wakes_comes_back() {
    let word = AtomicU32::new(1);
    OneCpu::sleep(&word, 1);
    OneCpu::sleep(&word, 2);
    OneCpu::wake(&word, 1);
    assert_eq!(OneCpu::now_ns(), 0);
}

#[test]
fn what_one_cpu_without_an_mmu_does_not_need_is_refused() {
    fn refuses(f: impl FnOnce()) -> bool {
        catch_unwind(AssertUnwindSafe(f)).is_err()
    }
    let callback = Callback { call: |_: &Ram<2>, _| (), data: 0 };
    let (one, two) = (Ram::<1>::new(2), Ram::<2>::new(2));
    assert!(refuses(|| one.load_root(None)) && refuses(|| one.flush_all()));
    assert!(refuses(|| one.flush_range(VpnRange::default())));
    assert!(refuses(|| one.interrupt(&CpuMask::from_words([1]))));
    one.interrupt(&CpuMask::from_words([0]));
    one.barrier_all();
    // SAFETY: no function is set.
    assert!(unsafe { one.set_interrupt_handler(None) });
    assert!(refuses(|| two.barrier_all()));
    // SAFETY: the function does nothing.
    assert!(refuses(|| assert!(unsafe { two.set_interrupt_handler(Some(callback)) })));
}
