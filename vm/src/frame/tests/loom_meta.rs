//! References to a frame, in every order.

use super::*;
use crate::machine::testing::TestCpu;
use crate::sync::testing::{UNBOUNDED, run_model};
use loom::sync::Arc;

/// A frame of user memory with one reference.
fn user_frame() -> Arc<FrameMeta<TestCpu>> {
    let zero = || AtomicU64::new(0);
    let (mapcount, word) = (AtomicU32::new(0), AtomicU32::new(0));
    let meta = Arc::new(FrameMeta { state: zero(), mapcount, word, link: [zero(), zero()] });
    meta.set_state(FrameState::TAKEN_FRAME);
    assert!(meta.put_to_use(Kind::User));
    meta
}

fn is_last(put: Option<FrameState>) -> u32 {
    u32::from(put == Some(FrameState::TAKEN_FRAME))
}

#[test]
fn loom_the_last_put_frees_once_and_no_get_revives() {
    run_model(UNBOUNDED, || {
        let meta = user_frame();
        let other = meta.clone();
        let walker = loom::thread::spawn(move || {
            TestCpu::become_cpu(1);
            if other.try_get() { is_last(other.put()) } else { 0 }
        });
        let mut freed = is_last(meta.put());
        // Allocated again, as a kind that no walker may count.
        if freed == 1 {
            meta.set_state(FrameState::TAKEN_FRAME);
        }
        freed += walker.join().unwrap();
        assert_eq!((freed, meta.state()), (1, FrameState::TAKEN_FRAME));
    });
}

#[test]
fn loom_sharing_and_counting_do_not_lose_each_other() {
    run_model(UNBOUNDED, || {
        let meta = user_frame();
        let other = meta.clone();
        let walker = loom::thread::spawn(move || {
            TestCpu::become_cpu(1);
            assert!(other.try_get());
        });
        assert!(meta.share());
        walker.join().unwrap();
        assert_eq!((meta.state().refcount(), meta.state().is_exclusive()), (2, false));
        assert!(!meta.try_make_exclusive());
    });
}
