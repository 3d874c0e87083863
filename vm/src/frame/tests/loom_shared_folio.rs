//! Leaves of one folio in several spaces, and its split, in every order.

use super::*;
use crate::frame::Kind;
use crate::machine::testing::TestCpu;
use crate::sync::testing::{UNBOUNDED, run_model, thread};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use std::boxed::Box;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed as HostRelaxed};

type Meta = FrameMeta<TestCpu>;

/// A folio of two frames that two leaves map: the records of both frames.
fn shared_folio() -> Arc<[Meta; 2]> {
    let frames = Arc::new([Meta::of_model(), Meta::of_model()]);
    frames[0].set_state(FrameState::taken(Order(1)));
    frames[0].become_mapped_folio(None);
    assert_eq!(frames[0].map_folio_again(), Ok(FolioLeaves::Folio));
    frames
}

/// Splits the folio, unless it is split.
fn split(frames: &[Meta; 2]) {
    let Some(leaves) = frames[0].begin_folio_split() else { return };
    let folio = frames[0].split_first();
    frames[1].become_part(folio, leaves, None);
    frames[0].end_folio_split(leaves);
}

fn put(meta: &Meta) -> bool {
    meta.put().is_some_and(|state| state.kind() == Kind::Taken)
}

#[test]
fn loom_a_leaf_that_ends_against_a_split_of_its_folio() {
    let seen: &'static [AtomicUsize; 2] = Box::leak(Box::default());
    run_model(UNBOUNDED, move || {
        let frames = shared_folio();
        let other = frames.clone();
        let splitter = thread::spawn(move || {
            TestCpu::become_cpu(1);
            split(&other);
        });
        let is_split = match frames[0].drop_folio_leaf() {
            LeafDropped::Last => panic!("the other leaf is there"),
            LeafDropped::Others => false,
            LeafDropped::Frames => {
                assert!(frames.iter().all(|meta| !meta.remove_mapping()), "the other leaf keeps all");
                true
            }
        };
        splitter.join().unwrap();
        let counts = |meta: &Meta| (meta.mapcount(), meta.state().refcount(), meta.state().order());
        assert_eq!(frames.each_ref().map(counts), [(1, 1, Order::BASE); 2]);
        // The leaf that is left is one entry of each frame.
        assert_eq!(frames[0].drop_folio_leaf(), LeafDropped::Frames);
        assert!(frames.iter().all(|meta| meta.remove_mapping() && put(meta)));
        seen[usize::from(is_split)].fetch_add(1, HostRelaxed);
    });
    assert!(seen.iter().all(|count| count.load(HostRelaxed) > 0), "before the split, and after it");
}

#[test]
fn loom_two_leaves_of_one_folio_are_split_at_once() {
    run_model(UNBOUNDED, || {
        let frames = shared_folio();
        let other = frames.clone();
        // Each goes on with what a split gives: an entry of each frame.
        let use_parts = |frames: &[Meta; 2]| {
            split(frames);
            frames.each_ref().map(|meta| meta.remove_mapping() && put(meta))
        };
        let splitter = thread::spawn(move || {
            TestCpu::become_cpu(1);
            use_parts(&other)
        });
        let here = use_parts(&frames);
        let there = splitter.join().unwrap();
        assert_eq!([here[0] != there[0], here[1] != there[1]], [true; 2], "each frame is freed once");
    });
}

#[test]
fn loom_a_folio_is_written_only_after_its_last_other_leaf_is_gone() {
    let seen: &'static [AtomicUsize; 2] = Box::leak(Box::default());
    run_model(UNBOUNDED, move || {
        let (frames, contents) = (shared_folio(), Arc::new(UnsafeCell::new(0)));
        let (other, same) = (frames.clone(), contents.clone());
        let writer = thread::spawn(move || {
            TestCpu::become_cpu(1);
            let is_exclusive = other[0].try_make_folio_exclusive();
            if is_exclusive {
                // SAFETY: loom checks that no thread reads meanwhile.
                same.with_mut(|byte| unsafe { *byte = 1 });
            }
            is_exclusive
        });
        // SAFETY: loom checks that no thread writes meanwhile.
        contents.with(|byte| assert_eq!(unsafe { *byte }, 0));
        assert_eq!(frames[0].drop_folio_leaf(), LeafDropped::Others);
        let is_exclusive = writer.join().unwrap();
        assert!(is_exclusive || frames[0].try_make_folio_exclusive(), "the other is gone");
        assert_eq!(frames[0].drop_folio_leaf(), LeafDropped::Last);
        assert!(put(&frames[0]));
        seen[usize::from(is_exclusive)].fetch_add(1, HostRelaxed);
    });
    assert!(seen.iter().all(|count| count.load(HostRelaxed) > 0), "too early, and late enough");
}

#[test]
fn loom_a_leaf_more_against_a_split() {
    let seen: &'static [AtomicUsize; 2] = Box::leak(Box::default());
    run_model(UNBOUNDED, move || {
        let frames = shared_folio();
        let other = frames.clone();
        let splitter = thread::spawn(move || {
            TestCpu::become_cpu(1);
            split(&other);
        });
        let counted = frames[0].map_folio_again().unwrap();
        if counted == FolioLeaves::Frames {
            frames.iter().for_each(|meta| assert_eq!(meta.add_mapping().map(|nr| nr > 1), Some(true)));
        }
        splitter.join().unwrap();
        assert_eq!(frames.each_ref().map(Meta::mapcount), [3, 3]);
        assert!(frames.iter().all(|meta| meta.state().refcount() == 1 && !meta.state().is_exclusive()));
        seen[usize::from(counted == FolioLeaves::Folio)].fetch_add(1, HostRelaxed);
    });
    assert!(seen.iter().all(|count| count.load(HostRelaxed) > 0), "before the split, and after it");
}
