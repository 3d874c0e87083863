//! RCU: read sections of another RCU, memories that are not the first, CPUs that have no slot, and sections
//! that never end.

use crate::world::{Heap, Lab, LyingCarve, on_cpu, on_lost_cpu};
use crate::{call, called};
use interleaf::frame::Memory;
use interleaf::machine::Machine;
use interleaf::sync::{Carve, Event, Handler, RegisterError, Registration};
use interleaf::sync::{
    CpuNumbers, GarbageLimits, HitSource, LastHit, LastHits, Rcu, RcuHead, RcuList, RcuSlot, ReadGuard,
};
use interleaf_lab::machine::host::Host;
use interleaf_lab::machine::soft::MachineConfig;
use interleaf_lab::machine::soft::boot_map;
use std::mem::forget;

/// Calls every function of the module.
pub fn run() {
    on_cpu(sections);
    on_cpu(freeing);
    on_cpu(hits);
    on_lost_cpu(forgotten_section);
    on_lost_cpu(|_| no_slots());
    on_cpu(handlers);
}

fn rcu() -> Rcu<'static, Host> {
    call!(Rcu::carve, &mut Heap, 2).flatten().expect("memory")
}

fn sections(_: &Lab) {
    let (own, foreign) = (rcu(), rcu());
    for mut lie in LyingCarve::ALL {
        called!(Rcu::carve => Rcu::<Host>::carve(&mut lie, 2).is_some());
    }
    for nr_cpus in [1 << 24, u32::MAX] {
        assert!(called!(Rcu::carve => Rcu::<Host>::carve(&mut Heap, nr_cpus).is_none()).unwrap_or(true));
    }
    limits();
    assert_ne!(call!(Rcu::id, &own), call!(Rcu::id, &foreign));
    call!(Rcu::extent_of_cpus, &own);
    let slot: RcuSlot<String, Host> = call!(RcuSlot::new, &own).expect("a slot");
    let (outer, inner) = (own.read(), called!(Rcu::read => own.read()).expect("a section"));
    assert_eq!(call!(ReadGuard::rcu, &inner), call!(Rcu::id, &own));
    drop(outer);
    assert_eq!(called!(RcuSlot::load => slot.load(&inner).is_none()), Some(true));
    assert_eq!(call!(RcuSlot::get, &slot), Some(None));
    let other = foreign.read();
    assert!(called!(RcuSlot::load => slot.load(&other).is_none()).is_none(), "a section of another RCU");
    assert!(call!(ReadGuard::assert_of, &inner, foreign.id()).is_none());
    assert!(call!(ReadGuard::assert_of, &inner, None).is_none(), "the readers of no RCU");
    assert_eq!(call!(ReadGuard::assert_of, &inner, own.id()), Some(()));
    drop((inner, other));
    let many: Vec<_> = (0..5000).map(|_| own.read()).collect();
    many.into_iter().for_each(drop);
    call!(RcuHead::new);
    call!(RcuList::new);
}

/// Limits of any memory, and numbers for no CPU.
fn limits() {
    for bytes in [0, 1, 1 << 20, u64::MAX] {
        for nr_cpus in [0, 1, u32::MAX] {
            let limits = call!(GarbageLimits::for_memory, bytes, nr_cpus).expect("limits");
            let (lot, most) =
                (call!(GarbageLimits::lot_bytes, &limits), call!(GarbageLimits::most_bytes, &limits));
            assert!(lot > Some(0) && lot < most && most <= Some(GarbageLimits::LARGE.most_bytes()));
            assert!(
                called!(Rcu::carve_with => Rcu::<Host>::carve_with(&mut Heap, 1, limits).is_some()).is_some()
            );
        }
    }
    let numbers: CpuNumbers<'_, Host> = call!(CpuNumbers::carve, &mut Heap, 2).flatten().expect("memory");
    assert_ne!(call!(CpuNumbers::next, &numbers), call!(CpuNumbers::next, &numbers));
    call!(CpuNumbers::extent, &numbers);
    let none: CpuNumbers<'_, Host> = CpuNumbers::carve(&mut Heap, 0).expect("no memory is enough");
    assert!(call!(CpuNumbers::next, &none).is_none(), "this CPU has no numbers");
}

fn freeing(machine: &Lab) {
    let config = MachineConfig::small(1, 1024);
    let foreign = Lab::new(&config).expect("a machine");
    let (one, two) = (rcu(), rcu());
    let memory = Memory::new(machine, boot_map(machine)).expect("memory");
    assert_eq!(called!(Rcu::poll => one.poll(machine, &memory)), Some(()));
    assert_eq!(called!(Rcu::wait => one.wait(machine, &memory)), Some(()));
    assert_eq!(called!(Rcu::orphan => one.orphan(&memory)), Some(()));
    assert_eq!(called!(Rcu::free_all => one.free_all(machine, &memory)), Some(true));
    for age in [0, u64::MAX] {
        assert_eq!(called!(Rcu::idle => one.idle(machine, age, &memory)), Some(false));
        assert_eq!(called!(Rcu::tick => one.tick(machine, age, &memory)), Some(()));
    }
    assert_eq!(call!(Rcu::garbage, &one), Some(0));
    let stats = called!(Rcu::stats => one.stats(machine)).expect("counts");
    assert_eq!((stats.objects, stats.bytes), (0, 0));
    // Another machine orders all CPUs of the type all the same.
    called!(Rcu::poll => two.poll(&foreign, &memory));
    if cfg!(debug_assertions) {
        let _section = one.read();
        assert!(called!(Rcu::wait => one.wait(machine, &memory)).is_none(), "a reader waits for itself");
    }
    let section = one.read();
    called!(Rcu::poll => one.poll(machine, &memory));
    assert_eq!(called!(Rcu::free_all => one.free_all(machine, &memory)), Some(false));
    assert!(called!(Rcu::stats => one.stats(machine)).is_some());
    drop(section);
    second_memory(&one);
    memory.check().expect("frames add up");
}

/// Garbage has one memory for ever.
fn second_memory(rcu: &Rcu<'_, Host>) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            on_cpu(|machine| {
                let memory = Memory::new(machine, boot_map(machine)).expect("memory");
                assert!(called!(Rcu::poll => rcu.poll(machine, &memory)).is_none());
                assert!(called!(Rcu::wait => rcu.wait(machine, &memory)).is_none());
                assert!(called!(Rcu::orphan => rcu.orphan(&memory)).is_none());
                assert!(called!(Rcu::idle => rcu.idle(machine, 0, &memory)).is_none());
                assert!(called!(Rcu::tick => rcu.tick(machine, 0, &memory)).is_none());
                assert!(called!(Rcu::free_all => rcu.free_all(machine, &memory)).is_none());
            });
        });
    });
}

fn hits(_: &Lab) {
    let (rcu, other) = (rcu(), rcu());
    let (one, two): (HitSource<Host>, HitSource<Host>) =
        (call!(HitSource::new).expect("a source"), HitSource::new());
    let (section, foreign) = (rcu.read(), other.read());
    crate::call::note("LastHits::item");
    crate::call::note("LastHits::table");
    for source in [&one, &two] {
        let stale = call!(HitSource::version, source).expect("a version");
        call!(HitSource::invalidate, source);
        for section in [&section, &foreign] {
            let now = source.version();
            let item = called!(LastHit::get => LastHit::get(section, LastHits::item, stale));
            assert_eq!(item, Some(None), "nothing was found yet");
            assert_eq!(called!(LastHit::get => LastHit::get(section, LastHits::table, now)), Some(None));
            let part: fn(&LastHits<Host>) -> &LastHit<Host, 1> = |_| panic!("a part that panics");
            called!(LastHit::get => LastHit::get(section, part, now));
        }
    }
}

/// A section that never ends: nothing is freed any more, and nothing else is harmed.
fn forgotten_section(machine: &Lab) {
    let rcu = rcu();
    let memory = Memory::new(machine, boot_map(machine)).expect("memory");
    forget(rcu.read());
    for _ in 0..10 {
        called!(Rcu::poll => rcu.poll(machine, &memory));
    }
    drop(rcu.read());
    memory.check().expect("frames add up");
}

/// An RCU for fewer CPUs than there are: a section is refused, and leaves nothing behind.
fn no_slots() {
    let none: Rcu<'_, Host> = Rcu::carve(&mut Heap, 0).expect("no memory is enough");
    assert!(called!(Rcu::read => drop(none.read())).is_none(), "this CPU has no slot");
    let in_section = <Host as interleaf::machine::Cpu>::with_context(|context| context.in_read_section());
    assert!(!in_section, "a section that was refused counts as one");
}

/// A handler that lies about its state, and panics when it is to stop.
struct Rude;

static OTHER: u64 = 77;

impl Handler<Lab> for Rude {
    type State<'x> = u64;
    const EVENT: Event = Event::Interrupt;

    fn carve<'x>(_: &mut impl Carve<'x>, machine: &Lab) -> Option<u64> {
        (machine.nr_cpus() > 1).then_some(5)
    }
    fn shorten<'a, 's, 'l: 's>(_: &'a u64) -> &'a u64 {
        &OTHER
    }
    fn handle(state: &u64, _: &Lab) {
        assert_eq!(*state, 5);
    }
    fn stop(_: &u64) {
        panic!("a handler that does not stop");
    }
}

/// A handler that keeps the default.
struct Meek;

impl Handler<Lab> for Meek {
    type State<'x> = ();
    const EVENT: Event = Event::Interrupt;

    fn carve<'x>(_: &mut impl Carve<'x>, _: &Lab) -> Option<()> {
        None
    }
    fn shorten<'a, 's, 'l: 's>(state: &'a ()) -> &'a () {
        state
    }
    fn handle((): &(), _: &Lab) {}
}

fn handlers(machine: &Lab) {
    let config = MachineConfig::small(2, 64);
    let other = Lab::new(&config).expect("a machine");
    let mut boot_memory = boot_map(machine).claim(machine).expect("nobody has it");
    called!(Handler::stop => <Meek as Handler<Lab>>::stop(&()));
    let mut of_machine = boot_memory.early_allocator();
    type Rudely<'m> = Registration<'m, Lab, Rude>;
    let refused = called!(Registration::register => Rudely::register(&other, &mut of_machine).is_err());
    assert_eq!(refused, Some(true), "memory that does not last as long as the machine");
    called!(Registration::register => {
        Registration::<Lab, Meek>::register(machine, &mut of_machine).is_err()
    });
    let rude = called!(Registration::register => Rudely::register(machine, &mut of_machine));
    let rude = rude.expect("an answer").expect("memory for a word");
    call!(Registration::machine, &rude);
    assert_eq!(*rude, 77);
    interrupt_self(machine);
    crate::call::without_message(|| drop(rude));
    // It was not unregistered, is called as long as the machine lives, and keeps its place.
    interrupt_self(machine);
    let second = called!(Registration::register => Rudely::register(machine, &mut of_machine).err());
    assert_eq!(second, Some(Some(RegisterError::Taken)));
    interrupt_self(machine);
}

fn interrupt_self(machine: &Lab) {
    machine.interrupt(&interleaf::units::CpuMask::from_words([1]));
    <Host as interleaf::machine::Cpu>::relax();
}
