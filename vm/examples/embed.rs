//! Embedding the library: a program's memory on a platform in one page (`flat`), whose conformance is
//! tested first.
//!
//! ```text
//! cargo run --package interleaf --example embed
//! ```

mod flat;

use flat::FlatMachine;
use interleaf::machine::conformance::{self, FRAMES, Harness};
use interleaf::space::{AddressSpace, Counter, Fault, FaultError, Layout, MapRequest, Outcome, Path, Vm};
use interleaf::table::format::X86_64;
use interleaf::units::{Access, PAGE_SIZE, Pfn, PfnRange, VirtAddr};

/// What the conformance suite needs to know of the platform.
struct OneProgram;

impl Harness<FlatMachine> for OneProgram {
    fn run(&self, _: &FlatMachine, programs: &[&(dyn Fn() + Sync)]) {
        programs.iter().for_each(|program| program());
    }
    fn has_mmu(&self) -> bool {
        false
    }
    fn load(&self, _: &FlatMachine, _: VirtAddr) -> Option<u64> {
        None
    }
}

fn main() {
    let tested = FlatMachine::new(FRAMES as usize + 1);
    let frames = PfnRange::new(Pfn(1), Pfn(1 + FRAMES));
    // SAFETY: nothing else uses this machine.
    let report = unsafe { conformance::run(&tested, &OneProgram, frames) };
    assert!(report.holds(), "{report}");

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
        println!(
            "{addr:?} is in {:?}",
            space.inspect().resident_frame(addr.vpn()).expect("just made present").0
        );
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

#[test]
fn runs() {
    main();
}

/// Two threads would both be CPU 0, and take one frame from its cache.
#[test]
fn a_second_thread_is_refused() {
    use interleaf::frame::AllocRequest;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    let machine = FlatMachine::new(4096);
    let vm = Vm::new(&machine, machine.boot_map()).expect("16 MiB are enough");
    let space = AddressSpace::new(&vm, Layout::linux::<X86_64>(), Path::Speculative).expect("memory");
    let base = space.map(&MapRequest::anonymous(1 << 20)).expect("room for a MiB");
    let owned = vm.memory().alloc_frame(AllocRequest::ZEROED).expect("there is memory");
    let refuses = |call: &dyn Fn()| {
        let why = catch_unwind(AssertUnwindSafe(call)).expect_err("it is refused");
        assert!(why.downcast_ref::<String>().is_some_and(|why| why.contains("platform of one CPU")));
    };
    let calls = || {
        refuses(&|| drop(vm.memory().alloc_frame(AllocRequest::ZEROED)));
        refuses(&|| _ = space.fault(Fault { addr: base, access: Access::Write }));
        refuses(&|| _ = space.unmap(base, 4096));
        refuses(&|| vm.trim());
        refuses(&|| vm.synchronize());
        refuses(&|| _ = vm.garbage_stats());
    };
    std::thread::scope(|scope| scope.spawn(calls).join()).expect("each call is refused");
    drop(owned);
    assert_eq!(space.fault(Fault { addr: base, access: Access::Write }), Ok(Outcome::Speculated));
    drop(space);
    vm.trim();
    vm.memory().check().expect("frames add up");
}
