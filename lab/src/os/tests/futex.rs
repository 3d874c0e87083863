use super::*;
use std::sync::atomic::Ordering::SeqCst;

#[test]
fn a_changed_word_is_not_slept_on_and_a_sleeper_is_woken() {
    let word = AtomicU32::new(0);
    wait(&word, 1);
    std::thread::scope(|s| {
        let sleeper = s.spawn(|| {
            while word.load(SeqCst) == 0 {
                wait(&word, 0);
            }
        });
        word.store(1, SeqCst);
        wake(&word, u32::MAX);
        sleeper.join().unwrap();
    });
    assert_eq!(wake(&word, 1), 0);
}
