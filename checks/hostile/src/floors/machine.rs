//! The platform's contract, as far as it is safe: contexts, defaults of the traits, and the formats.

use crate::odd::{self, LEVELS, NUMBERS};
use crate::world::{Lab, on_cpu, on_lost_cpu, with_vm};
use crate::{call, called};
use interleaf::machine::conformance::{Harness, Rule};
use interleaf::machine::{
    AccessKind, CacheType, Context, Cpu, Entry, Format, Leaf, LeafKind, Machine, Marker,
};
use interleaf::table::format::{Aarch64, Ept, Sv39, Sv48, Sv57, X86_64, X86_64La57};
use interleaf::units::{Rights, VirtAddr};
use interleaf_lab::machine::host::Host;
use std::sync::atomic::AtomicU32;

/// Calls every function of the floor.
pub fn run() {
    contexts();
    on_cpu(defaults);
    with_vm(|machine, _| reads(machine));
    formats::<X86_64>();
    formats::<X86_64La57>();
    formats::<Aarch64>();
    formats::<Sv39>();
    formats::<Sv48>();
    formats::<Sv57>();
    formats::<Ept>();
    on_lost_cpu(left_off);
    for rule in Rule::ALL {
        call!(Rule::sentence, *rule);
    }
}

fn contexts() {
    let forged = call!(Context::new).expect("a context of no thread");
    call!(Context::held, &forged);
    call!(Context::in_read_section, &forged);
    call!(Context::in_handler, &forged);
    call!(Context::helper_ns, &forged);
    call!(Context::take_helper_ns, &forged);
    // A callback that panics, and one that asks for the context again.
    called!(Cpu::with_context => Host::with_context(|_| panic!("a callback that panics")));
    Host::with_context(|context| Host::with_context(|again| assert_eq!(again.held(), context.held())));
}

fn defaults(machine: &Lab) {
    for kind in [AccessKind::Load, AccessKind::Write, AccessKind::Fence] {
        call!(AccessKind::writes, kind);
        called!(Cpu::access => Host::access(usize::MAX, usize::MAX, kind));
    }
    called!(Cpu::yield_now => Host::yield_now());
    called!(Cpu::relax => Host::relax());
    for limit in [0, 1, u32::MAX] {
        let rounds = called!(Cpu::spin => Host::spin(limit)).expect("an answer");
        assert!(rounds > 0, "a loop that spins goes on");
    }
    called!(Cpu::id => Host::id());
    called!(Cpu::now_ns => Host::now_ns());
    let word = AtomicU32::new(7);
    for number in [0, 1, u32::MAX] {
        called!(Cpu::sleep => Host::sleep(&word, number));
        called!(Cpu::wake => Host::wake(&word, number));
    }
    called!(Machine::nr_cpus => machine.nr_cpus());
    called!(Machine::load_root => machine.load_root(None));
    called!(Machine::loaded_root => machine.loaded_root());
    let elsewhere = std::thread::scope(|scope| {
        let number = || called!(Cpu::machine => Host::machine());
        scope.spawn(move || (number(), on_cpu(|_| number()))).join().expect("numbers")
    });
    assert_eq!(elsewhere.0, None, "no machine");
    assert!(elsewhere.1.is_some_and(|number| number != Host::machine()), "another machine");
    for cpu in odd::cpus() {
        called!(Cpu::end_expedite => Host::end_expedite(cpu));
        called!(Cpu::expedite_helper => Host::expedite_helper(cpu));
        called!(Machine::node_of => machine.node_of(cpu));
    }
    for from in odd::nodes() {
        for to in odd::nodes() {
            called!(Machine::distance => machine.distance(from, to));
        }
    }
    for value in NUMBERS {
        called!(Machine::event => machine.event("", value));
    }
    let lazy = Lazy;
    called!(Harness::has_mmu => Harness::<Lab>::has_mmu(&lazy));
    called!(Harness::gives_frames_up => Harness::<Lab>::gives_frames_up(&lazy));
    called!(Harness::patience => Harness::<Lab>::patience(&lazy));
    called!(Harness::patience_ns => Harness::<Lab>::patience_ns(&lazy));
    called!(Harness::run_beside_helpers => lazy.run_beside_helpers(machine, &[]));
    called!(Harness::rounds => Harness::<Lab>::rounds(&lazy));
    called!(Harness::rounds_ns => Harness::<Lab>::rounds_ns(&lazy));
    called!(Harness::run_with_helper => lazy.run_with_helper(machine, &|| panic!("a program that panics")));
}

/// Interrupts and preemption that are never turned on again.
fn left_off(_: &Lab) {
    called!(Cpu::interrupts_off => Host::interrupts_off());
    called!(Cpu::preempt_off => Host::preempt_off());
}

/// A harness that does nothing of what it should.
struct Lazy;

impl Harness<Lab> for Lazy {
    fn run(&self, _: &Lab, programs: &[&(dyn Fn() + Sync)]) {
        programs.iter().for_each(|program| program());
    }
    fn load(&self, _: &Lab, at: VirtAddr) -> Option<u64> {
        Some(at.0)
    }
}

/// What the trait's safe methods that read take.
fn reads(machine: &Lab) {
    let mut bytes = [0; 64];
    for pfn in odd::pfns() {
        for offset in [0, 4095, 4096, usize::MAX] {
            called!(SoftMachine::read => machine.read(pfn, offset, &mut bytes));
        }
        called!(Machine::window => machine.window(pfn.addr()));
    }
    for start in odd::vpns() {
        for end in odd::vpns() {
            called!(Machine::flush_range => machine.flush_range(interleaf::units::VpnRange { start, end }));
        }
    }
    for mask in
        odd::cpu_masks().filter(|mask| mask.is_empty() || mask.count() as usize == interleaf::units::MAX_CPUS)
    {
        called!(Machine::interrupt => machine.interrupt(&mask));
        let mut helpers = mask;
        called!(Machine::restrict_helpers => machine.restrict_helpers(helpers.as_mask_mut()));
    }
    for len_bytes in [0, 1, 4096, 2 << 20, usize::MAX / 2, usize::MAX - 4096, usize::MAX] {
        called!(Machine::reserve_record_window => machine.reserve_record_window(len_bytes));
    }
    called!(Machine::flush_all => machine.flush_all());
    called!(Machine::barrier_all => machine.barrier_all());
}

fn formats<F: Format>() {
    for word in NUMBERS {
        let kind = call!(LeafKind::from_bits, word).expect("a kind");
        assert_eq!(call!(LeafKind::bits, kind), Some(word & 3));
    }
    for level in LEVELS {
        for word in NUMBERS {
            for store in [false, true] {
                called!(Format::used => F::used(word, store));
            }
            let _ = called!(Format::decode => F::decode(word, level));
            called!(Format::write_protected => F::write_protected(word, level));
            called!(Format::pending_free => F::pending_free(word, level));
        }
        for pfn in odd::pfns() {
            let leaf = call!(Leaf::new, pfn, Rights::all()).expect("a leaf");
            let leaf = called!(Leaf::used => leaf.used(true)).expect("a leaf");
            let leaf = call!(Leaf::cached_as, leaf, CacheType::Device).expect("a leaf");
            called!(Leaf::owned => leaf.owned());
            called!(Leaf::by_table => leaf.by_table());
            let pending = Marker::from_parts(Marker::PENDING_FREE, pfn.0);
            let (kind, payload) = (call!(Marker::kind, pending), call!(Marker::payload, pending));
            assert_eq!(
                call!(Marker::from_parts, kind.expect("a kind"), payload.expect("a frame")),
                Some(pending)
            );
            let markers = [Entry::Marker(Marker::UNKNOWN), Entry::Marker(pending)];
            for entry in [Entry::Absent, Entry::Table(pfn), Entry::Leaf(leaf)].into_iter().chain(markers) {
                called!(Format::encode => F::encode(entry, level));
            }
        }
    }
}
