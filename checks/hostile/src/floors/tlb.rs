//! TLB flushes: spaces that no CPU has loaded, flushed over inverted ranges, and edits that panic.

use crate::world::{Heap, Lab, LyingCarve, must_work, on_cpu, with_vm};
use crate::{call, called, odd};
use interleaf::machine::{FlushRange, Machine};
use interleaf::space::Vm;
use interleaf::sync::Rcu;
use interleaf::tlb::{Gather, PendingFlush, Shootdown, ShootdownStats, SpaceTlb};
use interleaf_lab::machine::host::Host;

/// Calls every function of the floor.
pub fn run() {
    on_cpu(|_| spaces());
    on_cpu(shootdowns);
    with_vm(gathers);
}

fn spaces() {
    for id in [0, 1, u64::MAX] {
        let Some(space) = call!(SpaceTlb::new, id) else { continue };
        let space: SpaceTlb<Host> = space;
        call!(SpaceTlb::id, &space);
        call!(SpaceTlb::is_loaded_nowhere, &space);
        assert!(call!(SpaceTlb::cpus_racy, &space).expect("a set").is_empty());
        let (one, two) = (call!(SpaceTlb::begin_edit, &space).expect("an edit"), space.begin_edit());
        assert_eq!(call!(PendingFlush::overlaps_another, &one), Some(true));
        drop(one);
        std::mem::forget(two);
        assert_eq!(call!(SpaceTlb::is_flush_pending, &space), Some(true), "it is pending for ever");
    }
}

fn shootdowns(machine: &Lab) {
    for mut lie in LyingCarve::ALL {
        called!(Shootdown::carve => Shootdown::<Host>::carve(&mut lie, 2).is_some());
    }
    let none: Shootdown<'_, Host> = Shootdown::carve(&mut Heap, 0).expect("no memory is enough");
    let shootdown: Shootdown<'_, Host> = call!(Shootdown::carve, &mut Heap, 2).flatten().expect("memory");
    let one = SpaceTlb::new(1);
    for range in odd::vpn_ranges().step_by(5) {
        let all = call!(FlushRange::of, range).expect("a flush");
        let leaf = call!(FlushRange::of_leaf, range).expect("a flush");
        let bits = call!(FlushRange::of_bits, range).expect("a flush");
        for flush in [all, leaf, bits, called!(FlushRange::unlocked => all.unlocked()).expect("a flush")] {
            call!(Machine::note_flush, machine, u64::MAX, flush);
            call!(Shootdown::flush, &shootdown, machine, &one, flush);
            assert!(call!(Shootdown::flush, &none, machine, &one, flush).is_none(), "this CPU has no slot");
        }
    }
    call!(Shootdown::extent, &shootdown);
    let stats = call!(Shootdown::stats, &shootdown).expect("counts");
    let mut later = stats;
    later.sent = u64::MAX;
    call!(ShootdownStats::since, &stats, &later);
}

fn gathers(machine: &Lab, vm: &Vm<'_, Lab>) {
    let rcu = Rcu::carve(&mut Heap, 2).expect("memory");
    let shootdown = Shootdown::carve(&mut Heap, 2).expect("memory");
    let space = SpaceTlb::<Host>::new(9);
    for asked in odd::vpn_ranges().step_by(9) {
        let pending = space.begin_edit();
        called!(Gather::during => Gather::during(vm.memory(), &rcu, &shootdown, &pending, asked, |gather| {
            call!(Gather::need_flush, gather, asked);
        }));
        called!(Gather::during => Gather::during(vm.memory(), &rcu, &shootdown, &pending, asked, |gather| {
            gather.need_flush(asked);
            panic!("an edit that panics");
        }));
    }
    assert!(!space.is_flush_pending(), "whatever an edit does, it ends");
    must_work(machine, vm);
}
