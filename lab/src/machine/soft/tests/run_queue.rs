use super::*;
use std::sync::atomic::AtomicU32;

#[test]
fn one_task_at_a_time_owns_the_cpu_and_every_task_gets_it() {
    let (queue, inside, rounds) = (RunQueue::default(), AtomicU32::new(0), AtomicU32::new(0));
    thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                for _ in 0..200 {
                    queue.acquire(|| ());
                    assert_eq!(inside.fetch_add(1, SeqCst), 0);
                    rounds.fetch_add(1, SeqCst);
                    assert_eq!(inside.fetch_sub(1, SeqCst), 1);
                    queue.release();
                }
            });
        }
    });
    assert_eq!(rounds.into_inner(), 800);
    assert!(queue.try_acquire() && !queue.try_acquire());
}
