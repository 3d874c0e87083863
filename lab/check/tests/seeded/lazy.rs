//! CPUs that keep a space without running it: they are interrupted for it once, they leave it, and what they
//! find when they come back is what is mapped then.

use interleaf::machine::Cpu;
use interleaf::space::{AddressSpace, Advice, Fault, Layout, MapRequest, Path, Place, Vm};
use interleaf::table::format::X86_64;
use interleaf::units::{Access, CpuId, VirtAddr};
use interleaf_check::drive::Faults;
use interleaf_lab::machine::baton::{Baton, Options, Program, Schedule, explore};
use interleaf_lab::machine::host::Host;
use interleaf_lab::machine::soft::boot_map;
use interleaf_lab::machine::soft::{Flavour, MachineConfig, SoftMachine};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::thread;

type Machine<C> = SoftMachine<C, X86_64>;
type Space<'v, C> = AddressSpace<'v, Machine<C>>;

const FRAMES: u64 = 512;
const PAGE: u64 = 4096;
/// A page that comes and goes.
const AT: VirtAddr = VirtAddr(1 << 32);

fn space_of<'v, C: Flavour>(vm: &'v Vm<'v, Machine<C>>) -> Space<'v, C> {
    AddressSpace::new(vm, Layout::linux::<X86_64>(), Path::Speculative).expect("memory")
}

/// Maps a page, has it touched, and unmaps it, without running the space.
fn cycle<C: Flavour>(space: &Space<'_, C>) {
    let base = space.map(&MapRequest::anonymous(PAGE)).expect("room");
    space.fault(Fault { addr: base, access: Access::Write }).expect("memory");
    space.unmap(base, PAGE).expect("it is mapped");
}

/// What two flushers do at the same time, counted over all seeds.
#[derive(Debug, Default)]
struct Overlaps {
    /// Calls of `advise` that a CPU is in.
    flushing: AtomicU32,
    /// Calls that began while the other flusher was in one, before the keeper had been asked.
    overlapped: AtomicU32,
}

/// CPU 0 keeps the space; the others flush it at the same time, and run no space themselves. Each gives back
/// pages of its own, for which both hold the space's lock to read: so the second asks while the first waits
/// for CPU 0.
fn two_flush_beside_a_keeper(schedule: &Schedule, overlaps: &Overlaps) {
    let machine = Machine::<Baton>::new(&MachineConfig::small(3, FRAMES)).expect("a machine");
    let cpu = machine.enter(CpuId(0));
    let vm = Vm::new(&machine, boot_map(&machine)).expect("memory");
    let space = space_of(&vm);
    drop(cpu);
    let (kept, done) = (AtomicU32::new(0), AtomicU32::new(0));
    let keep: Program<'_> = Box::new(|| {
        let active = space.activate(None);
        machine
            .write_u64(space.map(&MapRequest::anonymous(PAGE)).expect("room"), 7, &Faults::new(&space))
            .expect("memory");
        let lazy = active.enter_lazy_tlb();
        kept.store(1, SeqCst);
        while done.load(SeqCst) < 2 {
            Baton::relax();
        }
        assert!(lazy.resume().is_none(), "a CPU that was asked to flush still keeps the space");
    });
    let flush = || -> Program<'_> {
        Box::new(|| {
            let base = space.map(&MapRequest::anonymous(PAGE)).expect("room");
            space.fault(Fault { addr: base, access: Access::Write }).expect("memory");
            while kept.load(SeqCst) == 0 {
                Baton::relax();
            }
            for _ in 0..3 {
                space.fault(Fault { addr: base, access: Access::Write }).expect("memory");
                let others = overlaps.flushing.fetch_add(1, SeqCst);
                if others > 0 && vm.shootdown_stats().lazy_left == 0 {
                    overlaps.overlapped.fetch_add(1, SeqCst);
                }
                space.advise(base, PAGE, Advice::DontNeed).expect("it is mapped");
                overlaps.flushing.fetch_sub(1, SeqCst);
            }
            done.fetch_add(1, SeqCst);
        })
    };
    schedule.run(&machine, vec![keep, flush(), flush()]);
    let stats = vm.shootdown_stats();
    assert_eq!((stats.sent, stats.lazy_left), (1, 1), "{stats:?}");
    assert!(space.runs_nowhere(), "a CPU that has left the space is in its mask");
    let _cpu = machine.enter(CpuId(0));
    drop(space);
    vm.memory().check().expect("frames add up");
}

#[test]
fn a_cpu_that_keeps_a_space_is_interrupted_once_by_two_that_flush() {
    let overlaps = Arc::new(Overlaps::default());
    let counted = overlaps.clone();
    let scenario = move |schedule: &Schedule| two_flush_beside_a_keeper(schedule, &counted);
    let summary = explore(0..300, Options::default(), scenario);
    println!("{:?}, {overlaps:?}", summary.unwrap_or_else(|report| panic!("{report}")));
    assert!(
        overlaps.overlapped.load(SeqCst) > 30,
        "the two hardly ever flush at the same time: {overlaps:?}"
    );
}

/// CPU 0 maps a page anew each time, with a larger number in it; CPU 1 reads it, and pauses in between.
fn one_reads_with_pauses(schedule: &Schedule) {
    let machine = Machine::<Baton>::new(&MachineConfig::small(2, FRAMES)).expect("a machine");
    let cpu = machine.enter(CpuId(0));
    let vm = Vm::new(&machine, boot_map(&machine)).expect("memory");
    let (space, other) = (space_of(&vm), space_of(&vm));
    drop(cpu);
    // The number that a page read from now on must hold at least.
    let (least, visits_other) = (AtomicU64::new(0), schedule.seed() % 2 == 1);
    let renew: Program<'_> = Box::new(|| {
        let active = space.activate(None);
        let request = MapRequest { place: Place::FixedNoReplace(AT), ..MapRequest::anonymous(PAGE) };
        for number in 1..8 {
            space.map(&request).expect("room");
            machine.write_u64(AT, number, &Faults::new(&space)).expect("it is mapped");
            space.unmap(AT, PAGE).expect("it is mapped");
            least.store(number + 1, SeqCst);
        }
        drop(active);
    });
    let read: Program<'_> = Box::new(|| {
        let mut active = space.activate(None);
        while least.load(SeqCst) < 8 {
            for _ in 0..2 {
                let before = least.load(SeqCst);
                let found = machine.read_u64(AT, &Faults::new(&space));
                assert!(
                    found.is_err() || found.is_ok_and(|word| word == 0 || word >= before),
                    "{found:?} after {before} were gone"
                );
            }
            let lazy = active.enter_lazy_tlb();
            (0..schedule.seed() % 5).for_each(|_| Baton::relax());
            active = match lazy.resume() {
                Some(active) if visits_other => space.activate(Some(other.activate(Some(active)))),
                Some(active) => active,
                None => space.activate(None),
            };
        }
        drop(active);
    });
    schedule.run(&machine, vec![renew, read]);
    assert!(machine.violations().is_empty(), "{:?}", machine.violations());
    assert!(space.runs_nowhere() && other.runs_nowhere());
    let _cpu = machine.enter(CpuId(0));
    drop((space, other));
    vm.memory().check().expect("frames add up");
}

#[test]
fn a_cpu_that_pauses_reads_nothing_that_was_unmapped_meanwhile() {
    let summary = explore(0..400, Options::default(), one_reads_with_pauses);
    println!("{:?}", summary.unwrap_or_else(|report| panic!("{report}")));
}

const CYCLES: u32 = 5000;

/// Interrupts of cycles on CPU 0 of as many, while `keepers` others keep the space.
fn interrupts_beside(nr_cpus: u32, keepers: u32) -> u64 {
    let machine = Machine::<Host>::new(&MachineConfig::small(nr_cpus, FRAMES)).expect("a machine");
    let cpu = machine.enter(CpuId(0));
    let vm = Vm::new(&machine, boot_map(&machine)).expect("memory");
    let space = space_of(&vm);
    drop(cpu);
    let (kept, over) = (AtomicU32::new(0), AtomicU32::new(0));
    thread::scope(|scope| {
        for keeper in 1..=keepers {
            let (machine, space, kept, over) = (&machine, &space, &kept, &over);
            scope.spawn(move || {
                let _cpu = machine.enter(CpuId(keeper));
                let _lazy = space.activate(None).enter_lazy_tlb();
                kept.fetch_add(1, SeqCst);
                while over.load(SeqCst) == 0 {
                    Host::relax();
                    thread::yield_now();
                }
            });
        }
        while kept.load(SeqCst) < keepers {
            thread::yield_now();
        }
        let _cpu = machine.enter(CpuId(0));
        let active = space.activate(None);
        (0..CYCLES).for_each(|_| cycle(&space));
        drop(active);
        over.store(1, SeqCst);
    });
    assert!(space.runs_nowhere());
    let stats = vm.shootdown_stats();
    assert!(stats.sent == stats.lazy_left && stats.lazy_entered == u64::from(keepers), "{stats:?}");
    let _cpu = machine.enter(CpuId(0));
    drop(space);
    stats.sent
}

#[test]
fn five_thousand_cycles_of_one_thread_interrupt_nobody_who_has_left_and_each_keeper_once() {
    for nr_cpus in [1, 2, 4, 8] {
        let (alone, beside) = (interrupts_beside(nr_cpus, 0), interrupts_beside(nr_cpus, nr_cpus - 1));
        println!(
            "{nr_cpus} CPUs: {CYCLES} cycles, {alone} interrupts; {beside} beside CPUs that keep the space"
        );
        assert_eq!((alone, beside), (0, u64::from(nr_cpus) - 1));
    }
}
