//! Jobs and ordered queues: ranges that are none, functions that panic, and CPUs that have no helper.

use crate::world::{Lab, on_cpu};
use crate::{call, called, odd};
use interleaf::machine::Cpu;
use interleaf::sync::RegisterError;
use interleaf::units::{CpuId, CpuMask, NodeMask};
use interleaf::work::{Chunk, Failed, Job, Ordered, PollLimit, WorkerPool};
use interleaf_lab::machine::host::Host;
use interleaf_lab::machine::soft::MachineConfig;
use interleaf_lab::machine::soft::boot_map;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

type Pool<'m> = WorkerPool<'m, Lab>;

/// Calls every function of the floor.
pub fn run() {
    on_cpu(|machine| {
        let pool: Pool<'_> = call!(WorkerPool::without_helpers, machine).expect("a pool");
        abuse(&pool);
        ordered(&pool, &CpuMask::<[u64; 4]>::first(256), &CpuMask::<[u64; 64]>::first(9999));
    });
    on_cpu(|machine| {
        let mut boot_memory = boot_map(machine).claim(machine).expect("nobody has it");
        machine.start_helpers([CpuId(1)], |_| ());
        let pool = call!(WorkerPool::spawn, machine, &mut boot_memory.early_allocator());
        let pool: Pool<'_> = pool.expect("no panic").expect("memory for a pool");
        let second = Pool::spawn(machine, &mut boot_memory.early_allocator()).err();
        assert_eq!(second, Some(RegisterError::Taken), "the helpers are the first pool's");
        called!(WorkerPool::set_poll_limit => pool.set_poll_limit(PollLimit(50)));
        for _ in 0..50_000_000 {
            if pool.has_helper_racy(CpuId(1)) {
                break;
            }
            Host::relax();
        }
        abuse(&pool);
        let masks: Vec<CpuMask<odd::AllWords>> = odd::cpu_masks().chain([CpuMask::first(2)]).collect();
        for parallel in &masks {
            for serial in &masks {
                ordered(&pool, parallel, serial);
            }
        }
        abuse(&pool);
        call!(WorkerPool::dismiss, &pool, CpuId(1));
        abuse(&pool);
    });
    on_cpu(foreign_memory);
}

/// Memory that does not last as long as the machine makes no pool.
fn foreign_memory(machine: &Lab) {
    let other = Lab::new(&MachineConfig::small(1, 256)).expect("a machine");
    let mut boot_memory = boot_map(&other).claim(&other).expect("nobody has it");
    let pool =
        called!(WorkerPool::spawn => Pool::spawn(machine, &mut boot_memory.early_allocator()).is_err());
    assert_eq!(pool, Some(true));
}

fn abuse(pool: &Pool<'_>) {
    call!(WorkerPool::machine, pool);
    for cpu in odd::cpus().filter(|cpu| cpu.0 != 1) {
        let has = call!(WorkerPool::has_helper_racy, pool, cpu);
        assert_ne!(has, Some(true), "{cpu:?} has no helper");
        call!(WorkerPool::dismiss, pool, cpu);
    }
    for max in [0, 1, u32::MAX] {
        call!(WorkerPool::set_max_helpers, pool, max);
        for node in odd::nodes() {
            call!(WorkerPool::set_max_helpers_on, pool, node, max);
        }
        call!(WorkerPool::set_poll_limit, pool, PollLimit(max.min(100)));
        odd_jobs(pool);
    }
    failing_jobs(pool);
    must_work(pool);
}

/// Ranges, alignments and chunks at the edges of numbers: every unit is done once.
fn odd_jobs(pool: &Pool<'_>) {
    let inverted = Range { start: 9, end: 3 };
    let huge = [0..u64::MAX, 1..u64::MAX, u64::MAX - 1..u64::MAX, u64::MAX..u64::MAX, 1 << 63..u64::MAX];
    for range in huge.into_iter().chain([0..0, inverted, 0..5]) {
        for align in [0, 1, 3, 1 << 63, u64::MAX] {
            for min_chunk in [1 << 60, 1 << 63, u64::MAX] {
                let done = AtomicU64::new(0);
                let work = |chunk: &Chunk<'_>| {
                    done.fetch_add(chunk.end - chunk.start, SeqCst);
                    Ok::<(), ()>(())
                };
                let job = call!(Job::new, range.clone(), work).expect("a job");
                let job = called!(Job::align => job.align(align)).expect("a job");
                let job = called!(Job::min_chunk => job.min_chunk(min_chunk)).expect("a job");
                let job = called!(Job::max_helpers => job.max_helpers(u32::MAX)).expect("a job");
                let job = called!(Job::on_nodes => job.on_nodes(NodeMask::from_bits(align))).expect("a job");
                if call!(WorkerPool::run, pool, &job).is_some_and(|result| result.is_ok()) {
                    let units = range.end.saturating_sub(range.start);
                    assert_eq!(done.into_inner(), units, "{range:?} by {min_chunk:#x} at {align:#x}");
                }
            }
        }
    }
}

/// Functions that fail, panic, lie about what they have done, or run jobs of their own.
fn failing_jobs(pool: &Pool<'_>) {
    let undo = |_: Range<u64>| panic!("an undo that panics");
    let stop = || panic!("a question that panics");
    let count = AtomicU64::new(0);
    for at in odd::NUMBERS {
        let liar = |chunk: &Chunk<'_>| {
            call!(Chunk::range, chunk);
            call!(Chunk::worker, chunk);
            call!(Chunk::is_stopped, chunk);
            call!(Chunk::done_to, chunk, at);
            count.fetch_add(1, SeqCst);
            if at & 1 == 1 { Err(at) } else { Ok(()) }
        };
        let job = Job::new(100..1000, liar).min_chunk(64);
        let undone = AtomicU64::new(0);
        let check = |range: Range<u64>| {
            assert!(100 <= range.start && range.start <= range.end && range.end <= 1000, "{range:?} undone");
            undone.fetch_add(range.end - range.start, SeqCst);
        };
        let job = called!(Job::undo => job.undo(&check)).expect("a job");
        let result = call!(WorkerPool::run, pool, &job);
        assert!(undone.into_inner() <= 900, "more was undone than there is: {result:?}");
    }
    let panics = |_: &Chunk<'_>| -> Result<(), ()> { panic!("a chunk that panics") };
    let fails = |_: &Chunk<'_>| Err::<(), _>("no");
    let fine = |_: &Chunk<'_>| Ok::<(), ()>(());
    let _ = called!(WorkerPool::run => pool.run(&Job::new(0..64, panics)));
    let _ = called!(WorkerPool::run => pool.run(&Job::new(0..64, panics).undo(&undo)));
    let _ = called!(WorkerPool::run => pool.run(&Job::new(0..64, fails).undo(&undo)));
    let stopped = called!(Job::stop_if => Job::new(0..64, fine).stop_if(&stop)).expect("a job");
    let _ = call!(WorkerPool::run, pool, &stopped);
    let cancelled = pool.run(&Job::new(0..u64::MAX, fine).stop_if(&|| true));
    assert!(matches!(cancelled, Err(Failed::Cancelled)), "{cancelled:?}");
    let nested = |_: &Chunk<'_>| pool.run(&Job::new(0..8, fine)).map(drop);
    let _ = called!(WorkerPool::run => pool.run(&Job::new(0..16, nested)));
}

/// What a pool is for.
fn must_work(pool: &Pool<'_>) {
    pool.set_max_helpers(u32::MAX);
    odd::nodes().for_each(|node| pool.set_max_helpers_on(node, u32::MAX));
    let sum = AtomicU64::new(0);
    let add = |chunk: &Chunk<'_>| {
        sum.fetch_add(chunk.range().sum::<u64>(), SeqCst);
        Ok::<(), ()>(())
    };
    pool.run(&Job::new(0..10_000, add).min_chunk(16)).expect("nothing fails");
    assert_eq!(sum.into_inner(), (0..10_000).sum::<u64>());
}

/// A queue on these CPUs; items are lost where their function panics, and only there.
fn ordered(pool: &Pool<'_>, parallel: &CpuMask, serial: &CpuMask) -> Option<u64> {
    let served = AtomicU64::new(0);
    let finish = |item: u64| {
        served.fetch_add(1, SeqCst);
        assert_ne!(item, u64::MAX, "an item that panics");
    };
    let begin = |item: &mut u64| *item = item.wrapping_mul(3);
    let result = called!(WorkerPool::ordered => {
        pool.ordered::<u64, _, _, _, 4>((parallel, serial), begin, finish, |queue| {
            for (nth, cpu) in odd::cpus().cycle().take(40).enumerate() {
                call!(Ordered::submit, queue, nth as u64, cpu);
            }
            for mask in odd::cpu_masks() {
                let _ = call!(Ordered::set_cpus, queue, &mask, &mask);
            }
            call!(Ordered::flush, queue);
            call!(Ordered::flush, queue);
        })
    });
    let (_, finished) = result?.ok()?;
    assert_eq!((finished.submitted, served.into_inner()), (40, 40));
    // The function of a queue panics after it has submitted: what was submitted is finished all the same.
    let count = AtomicU64::new(0);
    let unwound = called!(WorkerPool::ordered => {
        let serve = |_: u64| { count.fetch_add(1, SeqCst); };
        pool.ordered::<u64, (), _, _, 2>((parallel, serial), |_| (), serve, |queue| {
            (0..7).for_each(|nth| queue.submit(nth, CpuId(u32::MAX)));
            panic!("a function that panics");
        })
    });
    assert!(unwound.is_none());
    assert_eq!(count.into_inner(), 7);
    Some(finished.lost)
}
