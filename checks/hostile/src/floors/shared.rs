//! Atomics, lists, carved memory and per-CPU data: orderings that do not exist, allocators that lie, slots
//! of other CPUs, and parts that are no parts.

use crate::world::{Heap, LyingCarve, leak, on_cpu, on_lost_cpu};
use crate::{call, called, odd};
use interleaf::sync::atomic::{self, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use interleaf::sync::{self, CpuLocal, PerCpu, Plain, PreemptGuard, UniqueId};
use interleaf_lab::machine::host::Host;
use std::mem::{MaybeUninit, forget};

const ORDERINGS: [Ordering; 5] =
    [Ordering::Relaxed, Ordering::Acquire, Ordering::Release, Ordering::AcqRel, Ordering::SeqCst];

/// Calls every function of the module.
pub fn run() {
    on_cpu(|_| atomics());
    on_cpu(|_| pointers_and_fences());
    plain_values();
    carving();
    on_cpu(|_| per_cpu());
    on_cpu(|_| parts());
    on_lost_cpu(|_| {
        let data = PerCpu::<CpuLocal<u32>, Host>::carve(&mut Heap, 2, |_| CpuLocal::new(0)).expect("memory");
        forget(data.get_cpu());
        assert_eq!(data.get_cpu().with(|local| local, |value| *value), Some(0));
    });
}

macro_rules! words {
    ($name:ident, $max:expr) => {
        let mut word: $name<Host> = call!($name::new, $max).expect("an atomic");
        for order in ORDERINGS {
            call!($name::load, &word, order);
            call!($name::store, &word, $max, order);
            call!($name::swap, &word, $max, order);
            call!($name::fetch_add, &word, $max, order);
            call!($name::fetch_sub, &word, $max, order);
            call!($name::fetch_or, &word, $max, order);
            call!($name::fetch_and, &word, $max, order);
            call!($name::add_own, &word, $max);
            for failure in ORDERINGS {
                let _ = call!($name::compare_exchange, &word, 0, $max, order, failure);
                let _ = call!($name::update, &word, order, failure, |old| Some(old.wrapping_add(1)));
                let _ = called!($name::update => {
                    word.update(order, failure, |_| panic!("a change that panics"))
                });
            }
        }
        *call!($name::get_mut, &mut word).expect("a reference") = 5;
        assert_eq!(word.load(Ordering::SeqCst), 5);
    };
}

fn atomics() {
    words!(AtomicU32, u32::MAX);
    words!(AtomicU64, u64::MAX);
    words!(AtomicUsize, usize::MAX);
    let word = AtomicU32::<Host>::new(3);
    // Another value: returns at once.
    call!(AtomicU32::sleep_while, &word, 4);
    for count in [0, 1, u32::MAX] {
        call!(AtomicU32::wake, &word, count);
    }
}

fn pointers_and_fences() {
    let pointer: AtomicPtr<String, Host> = call!(AtomicPtr::null).expect("a pointer");
    let wild = core::ptr::without_provenance_mut::<String>(usize::MAX);
    for order in ORDERINGS {
        call!(AtomicPtr::load, &pointer, order);
        call!(AtomicPtr::store, &pointer, wild, order);
        call!(AtomicPtr::swap, &pointer, wild, order);
        for failure in ORDERINGS {
            let _ = call!(AtomicPtr::compare_exchange, &pointer, wild, wild, order, failure);
        }
        called!(atomic::fence => atomic::fence::<Host>(order));
    }
    called!(atomic::compiler_fence => atomic::compiler_fence::<Host>());
    called!(atomic::light_fence => atomic::light_fence::<Host>());
}

fn plain_values() {
    let mut plain: Plain<u64, Host> = call!(Plain::new, u64::MAX).expect("a value");
    call!(Plain::set, &mut plain, 1);
    assert_eq!(call!(Plain::get, &plain), Some(1));
    let (one, two) = (call!(UniqueId::new).expect("a number"), UniqueId::new());
    assert_ne!(call!(UniqueId::get, one), call!(UniqueId::get, two));
}

fn carving() {
    for len in [0, 1, 7, 1 << 20, usize::MAX >> 3, usize::MAX] {
        called!(sync::carve_slice => sync::carve_slice::<u64>(&mut Heap, len).map(|slots| slots.len()));
        called!(sync::carve_slice => sync::carve_slice::<()>(&mut Heap, len).map(|slots| slots.len()));
        for mut lie in LyingCarve::ALL {
            called!(sync::carve_slice => {
                sync::carve_slice::<[u64; 4]>(&mut lie, len).map(|slots| slots.len())
            });
        }
    }
    for mut lie in LyingCarve::ALL {
        let carved = called!(sync::carve_value => sync::carve_value(&mut lie, [7u64; 8]).map(|value| *value));
        assert!(carved.flatten().is_none(), "{lie:?} carved a value");
    }
    let mut slots = [const { MaybeUninit::<String>::uninit() }; 4];
    called!(sync::fill => {
        sync::fill(&mut slots, |at| if at < 3 { "x".into() } else { panic!("a value that panics") }).len()
    });
    called!(sync::fill_some => {
        sync::fill_some(&mut slots, |push| (0..9).for_each(|_| push("y".into()))).len()
    });
    let some = sync::fill_some(&mut slots, |push| push("z".into()));
    assert_eq!(some, ["z"]);
    sync::fill(&mut slots, |at| at.to_string());
    assert_eq!(leak(3).len(), 3);
}

fn per_cpu() {
    let none: PerCpu<'_, u64, Host> = call!(PerCpu::none).expect("no slots");
    assert!(called!(PerCpu::get_cpu => *none.get_cpu()).is_none(), "no CPU has a slot");
    let guard = PreemptGuard::new();
    assert!(called!(PerCpu::this_cpu => *none.this_cpu(&guard)).is_none());
    drop(guard);
    for nr_cpus in [0, 1, 2, 255, 256, 257, 1 << 20, u32::MAX] {
        let carve = |from: &mut dyn FnMut() -> Option<PerCpu<'static, u64, Host>>| from();
        let array =
            called!(PerCpu::carve => carve(&mut || PerCpu::carve(&mut Heap, nr_cpus, |cpu| cpu.0.into())));
        let Some(array) = array.flatten() else { continue };
        assert_eq!(call!(PerCpu::nr_cpus, &array), Some(nr_cpus));
        assert_eq!(called!(PerCpu::iter => array.iter().count()), Some(nr_cpus as usize));
        call!(PerCpu::extent, &array);
        for cpu in odd::cpus() {
            let found = called!(PerCpu::of => *array.of(cpu)).is_some();
            assert_eq!(found, cpu.0 < nr_cpus, "{cpu:?} of {nr_cpus}");
        }
        called!(PerCpu::get_cpu => *array.get_cpu());
    }
    for mut lie in LyingCarve::ALL {
        called!(PerCpu::carve => {
            PerCpu::<u64, Host>::carve(&mut lie, 2, |_| 7).map(|array| *array.get_cpu())
        });
    }
    called!(PerCpu::carve => PerCpu::<u64, Host>::carve(&mut Heap, 2, |_| panic!("a value that panics")));
    other_machine();
}

/// CPU 0 of two machines: only one has a slot.
fn other_machine() {
    let array = PerCpu::<CpuLocal<u64>, Host>::carve(&mut Heap, 2, |_| CpuLocal::new(0)).expect("memory");
    let guard = array.get_cpu();
    let add = || called!(CpuGuard::with => guard.with(|slot| slot, |value| *value += 1)).flatten();
    add().expect("a slot");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            on_cpu(|_| {
                assert!(called!(PerCpu::get_cpu => _ = array.get_cpu()).is_none(), "another machine's slot");
                let pinned = PreemptGuard::new();
                assert!(called!(PerCpu::this_cpu => _ = array.this_cpu(&pinned)).is_none());
            });
        });
    });
    assert_eq!(guard.with(|slot| slot, |value| *value), Some(1));
}

/// A part of no slot.
static FOREIGN: CpuLocal<u64> = CpuLocal::new(0);

fn parts() {
    let local = |_| (call!(CpuLocal::new, 1u64).expect("a part"), CpuLocal::new(2u64));
    let array = PerCpu::<(CpuLocal<u64>, CpuLocal<u64>), Host>::carve(&mut Heap, 2, local).expect("memory");
    let guard = array.get_cpu();
    let foreign = called!(CpuGuard::with => guard.with(|_| &FOREIGN, |value| *value));
    assert_eq!(foreign, None, "a part of no slot");
    called!(CpuGuard::with => guard.with(|_| panic!("a part that panics"), |value: &mut u64| *value));
    let inside = called!(CpuGuard::with => guard.with(|slot| &slot.0, |outer| {
        let again = guard.with(|slot| &slot.0, |inner| *inner);
        let other = array.get_cpu();
        let parts = (other.with(|slot| &slot.0, |inner| *inner), other.with(|slot| &slot.1, |inner| *inner));
        (*outer, again, parts.0, parts.1)
    }));
    assert_eq!(inside.flatten(), Some((1, None, None, Some(2))), "one user of a part at a time");
    called!(CpuGuard::with => guard.with(|slot| &slot.0, |_| panic!("a user that panics")));
    assert_eq!(guard.with(|slot| &slot.0, |value| *value), Some(1), "the part is free again");
}
