use super::*;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

#[test]
fn no_task_goes_on_before_all_have_come() {
    let (barrier, came) = (Barrier::new(3), AtomicUsize::new(0));
    thread::scope(|s| {
        for _ in 0..3 {
            s.spawn(|| {
                for round in 1..=50 {
                    came.fetch_add(1, SeqCst);
                    assert!(barrier.wait());
                    assert!(came.load(SeqCst) >= round * 3);
                    assert!(barrier.wait());
                }
            });
        }
    });
}

#[test]
fn no_task_waits_for_one_that_has_given_up() {
    let barrier = Barrier::new(2);
    thread::scope(|s| {
        let waits = s.spawn(|| barrier.wait());
        barrier.abort();
        assert!(!waits.join().unwrap());
    });
    assert!(!barrier.wait() && barrier.is_aborted());
}
