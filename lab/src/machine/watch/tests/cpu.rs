use super::*;
use crate::machine::watch::{Footprint, Labels, conflicts, footprint, record};
use interleaf::sync::atomic::{AtomicU64, Ordering, fence};
use interleaf::sync::{Plain, SpinLock};
use interleaf::units::CpuId;
use std::sync::Arc;

fn on_cpu<R>(cpu: u32, f: impl FnOnce() -> R) -> R {
    let bus = Arc::new(crate::machine::soft::bus::Bus::new(4));
    current::enter(&bus, CpuId(cpu));
    let result = f();
    current::leave();
    result
}

#[test]
fn an_access_is_recorded_with_its_field_and_its_place_in_the_source() {
    let word = AtomicU64::<Watch>::new(1);
    let ((), touches) = on_cpu(3, || {
        record(|| {
            word.store(2, Ordering::Relaxed);
            fence::<Watch>(Ordering::SeqCst);
        })
    });
    word.load(Ordering::Relaxed);
    let [store, fence] = touches[..] else { panic!("{touches:?}") };
    assert_eq!((store.cpu, store.kind, store.len_bytes), (CpuId(3), AccessKind::Store, 8));
    assert_eq!(store.addr, (&raw const word).addr());
    assert!(store.place.file().ends_with("watch/tests/cpu.rs"));
    assert_eq!(store.place.line() + 1, fence.place.line());
    assert_eq!(fence.kind, AccessKind::Fence);
}

#[test]
fn false_sharing_is_a_conflict_and_reading_together_is_none() {
    #[repr(align(64))]
    struct Line([AtomicU64<Watch>; 2], AtomicU64<Watch>);
    let line = Line([AtomicU64::new(0), AtomicU64::new(0)], AtomicU64::new(0));
    let touch = |cpu: u32| {
        let bump = || {
            line.0[cpu as usize].fetch_add(1, Ordering::Relaxed);
            line.1.load(Ordering::Relaxed);
        };
        on_cpu(cpu, || footprint(|| (0..10).for_each(|_| bump())).1)
    };
    let (first, second) = (touch(0), touch(1));
    assert_eq!(first.total(AccessKind::Update), 10);
    let mut labels = Labels::new();
    labels.add_value(&line.0[0], "first counter");
    labels.add_value(&line.0[1], "second counter");
    let found = conflicts(&first, &second);
    assert_eq!(found.len(), 1);
    assert!(found[0].both_write);
    assert_eq!(found[0].written_fields(&labels), ["first counter", "second counter"]);
    assert!(found[0].show(&labels).to_string().contains("10 x Update second counter"));
    let only_reads = |print: &Footprint| -> Vec<_> {
        print.uses().filter(|used| !used.kind.writes()).map(|used| used.addr).collect()
    };
    assert_eq!(only_reads(&first), only_reads(&second));
}

#[test]
fn plain_data_under_a_lock_is_recorded_field_by_field() {
    struct Pair {
        a: Plain<u64, Watch>,
        b: Plain<u64, Watch>,
    }
    let lock = SpinLock::<_, Watch, 3>::new(Pair { a: Plain::new(1), b: Plain::new(2) });
    let (sum, touches) = on_cpu(0, || {
        record(|| {
            let mut pair = lock.lock();
            let sum = pair.a.get() + pair.b.get();
            pair.b.set(sum);
            sum
        })
    });
    assert_eq!(sum, 3);
    let kinds: Vec<_> = touches.iter().map(|touch| touch.kind).collect();
    use AccessKind::*;
    assert_eq!(kinds, [Update, Read, Read, Write, Store]);
    assert_eq!(touches[3].addr, touches[1].addr + 8);
}
