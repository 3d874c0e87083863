//! Garbage that a CPU other than its owner frees.

use super::*;

#[test]
fn garbage_of_a_cpu_that_went_idle_is_freed_by_another() {
    let (machine, rcu, bin) = world(3);
    for cpu in 0..2 {
        TestCpu::become_cpu(cpu);
        for _ in 0..10 {
            // SAFETY: objects are made for one use and never freed.
            unsafe { rcu.defer(object(1).cast(), 7, BYTES, &bin) };
            rcu.poll(&machine, &bin);
        }
        rcu.orphan(&bin);
    }
    TestCpu::become_cpu(2);
    (0..4).for_each(|_| rcu.poll(&machine, &bin));
    assert_eq!((bin.count.load(Relaxed), rcu.garbage()), (20, 0));
    TestCpu::become_cpu(0);
}

/// Retires `objects` on CPU `cpu` without polling.
pub(super) fn defer_on(cpu: u32, objects: u64, rcu: &Rcu<TestCpu>, bin: &Bin) {
    TestCpu::become_cpu(cpu);
    for _ in 0..objects {
        // SAFETY: objects are made for one use and never freed.
        unsafe { rcu.defer(object(1).cast(), 7, BYTES, bin) };
    }
    TestCpu::become_cpu(0);
}

#[test]
fn a_cpu_that_lacks_memory_frees_the_garbage_of_quiet_cpus() {
    let (machine, rcu, bin) = world(4);
    (1..4).for_each(|cpu| defer_on(cpu, u64::from(cpu) * 100, &rcu, &bin));
    let stats = rcu.stats(&machine);
    assert_eq!((stats.objects, stats.bytes), (600, 600 * BYTES as u64));
    assert!(rcu.free_all(&machine, &bin));
    assert_eq!((bin.count.load(Relaxed), rcu.garbage()), (600, 0));
    let stats = rcu.stats(&machine);
    assert_eq!((stats.objects, stats.bytes, stats.peak_objects), (0, 0, 600));
    assert_eq!((stats.peak_bytes, stats.most_bytes), (600 * BYTES as u64, 4 * MOST * BYTES as u64));
    assert_eq!(stats.peak_call_bytes, 3 * BYTES as u64, "one object by each of three CPUs");
    defer_on(1, 5, &rcu, &bin);
    assert_eq!(rcu.garbage(), 5, "the CPU owns its garbage again");
}

#[test]
fn in_a_read_section_nothing_is_waited_for() {
    let (machine, rcu, bin) = world(2);
    defer_on(1, 9, &rcu, &bin);
    let section = rcu.read();
    assert!(!rcu.free_all(&machine, &bin) && rcu.garbage() == 9);
    drop(section);
    assert!(rcu.free_all(&machine, &bin) && rcu.garbage() == 0);
}

#[test]
fn a_reader_that_stays_is_waited_for_in_bounded_time() {
    let (machine, rcu, bin) = world(3);
    let (entered, leave) = (AtomicBool::new(false), AtomicBool::new(false));
    defer_on(1, 9, &rcu, &bin);
    thread::scope(|scope| {
        scope.spawn(|| {
            TestCpu::become_cpu(2);
            let _section = rcu.read();
            entered.store(true, Release);
            while !leave.load(Acquire) {
                thread::sleep(core::time::Duration::from_millis(1));
            }
        });
        while !entered.load(Acquire) {
            thread::yield_now();
        }
        assert!(!rcu.free_all(&machine, &bin));
        assert_eq!(rcu.garbage(), 9);
        leave.store(true, Release);
    });
    assert!(rcu.free_all(&machine, &bin) && rcu.garbage() == 0);
}

/// Whatever was retired before it began has been freed when it returns, though the owners retire, poll
/// and hand their garbage over meanwhile.
#[test]
fn all_is_freed_though_its_owners_are_at_work() {
    let (machine, rcu, bin) = world(4);
    let (retired, stop) = (Count::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for cpu in 2..4 {
            let (rcu, bin, machine, retired, stop) = (&rcu, &bin, &machine, &retired, &stop);
            scope.spawn(move || {
                TestCpu::become_cpu(cpu);
                for n in 0u64.. {
                    if stop.load(Relaxed) {
                        break;
                    }
                    retire(rcu, machine, bin, object(1));
                    retired.fetch_add(1, Release);
                    match n % 50 {
                        7 => rcu.orphan(bin),
                        19 => _ = rcu.idle(machine, 0, bin),
                        _ => {}
                    }
                }
            });
        }
        let takers = [0, 1].map(|cpu| {
            let (rcu, bin, machine, retired) = (&rcu, &bin, &machine, &retired);
            scope.spawn(move || {
                TestCpu::become_cpu(cpu);
                for _ in 0..300 {
                    let before = retired.load(Acquire);
                    assert!(rcu.free_all(machine, bin));
                    assert!(bin.count.load(Relaxed) >= before);
                }
            })
        });
        let ended = takers.map(|taker| taker.join());
        // The owners go on until then, also where a taker has panicked.
        stop.store(true, Relaxed);
        ended.into_iter().for_each(|ended| ended.unwrap());
    });
    assert!(rcu.free_all(&machine, &bin));
    assert_eq!((bin.count.load(Relaxed), rcu.garbage()), (retired.load(Relaxed), 0));
}

#[test]
fn garbage_handed_over_is_bounded_while_a_reader_stays() {
    let (machine, rcu, bin) = world(2);
    let (entered, leave) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            TestCpu::become_cpu(1);
            let _section = rcu.read();
            entered.store(true, Release);
            while !leave.load(Acquire) {
                thread::yield_now();
            }
        });
        while !entered.load(Acquire) {
            thread::yield_now();
        }
        for _ in 0..10 * MOST {
            // SAFETY: objects are made for one use and never freed.
            unsafe { rcu.defer(object(1).cast(), 7, BYTES, &bin) };
            rcu.idle(&machine, 0, &bin);
        }
        let own = rcu.cpus.of(crate::units::CpuId(0)).count.load(Relaxed);
        assert!(own > 0, "this CPU keeps what there is no room for");
        assert!(rcu.garbage() - own <= 2 * MOST + 1);
        leave.store(true, Release);
    });
    assert!(rcu.free_all(&machine, &bin) && rcu.garbage() == 0);
}
