//! References to a frame, in every order.

use super::*;
use crate::frame::AnonNodeId;
use crate::machine::testing::TestCpu;
use crate::sync::testing::{UNBOUNDED, run_model};
use crate::units::Vpn;
use core::num::NonZeroU32;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use std::sync::atomic::AtomicUsize;

impl<C: Cpu> FrameMeta<C> {
    /// A record of zeros, for models of records alone.
    pub(in crate::frame::record) fn of_model() -> Self {
        let zero = || AtomicU64::new(0);
        Self { state: zero(), mapcount: AtomicU32::new(0), word: AtomicU32::new(0), link: [zero(), zero()] }
    }
}

/// A frame of user memory with one reference.
fn user_frame() -> Arc<FrameMeta<TestCpu>> {
    let meta = Arc::new(FrameMeta::of_model());
    meta.set_state(FrameState::TAKEN_FRAME);
    assert!(meta.put_to_use(Kind::User));
    meta
}

/// A frame that one entry maps, which has one reference for all entries.
fn mapped_frame() -> Arc<FrameMeta<TestCpu>> {
    let meta = user_frame();
    assert_eq!(meta.add_mapping(), Some(0));
    meta
}

/// Takes a mapping back after its flush. Returns whether that freed the frame.
fn unmap(meta: &FrameMeta<TestCpu>) -> u32 {
    if meta.remove_mapping() { is_last(meta.put()) } else { 0 }
}

/// Maps a frame of which the caller has a reference.
fn map(meta: &FrameMeta<TestCpu>) {
    if meta.add_mapping() != Some(0) {
        assert!(meta.put().is_some());
    }
}

fn is_last(put: Option<FrameState>) -> u32 {
    u32::from(put == Some(FrameState::TAKEN_FRAME))
}

#[test]
fn loom_the_last_put_frees_once_and_no_get_revives() {
    run_model(UNBOUNDED, || {
        let meta = user_frame();
        let other = meta.clone();
        let walker = crate::sync::testing::thread::spawn(move || {
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
        let walker = crate::sync::testing::thread::spawn(move || {
            TestCpu::become_cpu(1);
            assert!(other.try_get());
        });
        let is_shared = meta.clear_exclusive();
        walker.join().unwrap();
        assert_eq!((meta.state().refcount(), meta.state().is_exclusive()), (2, !is_shared));
        assert!(!meta.try_make_exclusive());
    });
}

#[test]
fn loom_what_is_pinned_is_not_shared_and_what_is_shared_is_not_pinned() {
    run_model(UNBOUNDED, || {
        let meta = mapped_frame();
        let other = meta.clone();
        let pinner = crate::sync::testing::thread::spawn(move || {
            TestCpu::become_cpu(1);
            other.try_get_to_pin(true)
        });
        let shared = meta.map_again();
        let is_pinned = pinner.join().unwrap();
        assert_eq!(shared == Err(NotMappedAgain::Referenced), is_pinned);
        assert_eq!((shared.is_ok(), meta.state().is_exclusive()), (!is_pinned, is_pinned));
    });
}

#[test]
fn loom_a_joint_reference_against_a_late_flush() {
    run_model(UNBOUNDED, || {
        let meta = mapped_frame();
        // An index's.
        assert!(meta.try_get());
        let other = meta.clone();
        let fault = crate::sync::testing::thread::spawn(move || {
            TestCpu::become_cpu(1);
            assert!(other.try_get());
            map(&other);
            assert!(other.mapcount() > 0 && other.state().refcount() > 0, "a frame is mapped, and not held");
            unmap(&other)
        });
        let late = unmap(&meta);
        let freed = fault.join().unwrap() + late;
        assert_eq!((freed, meta.mapcount(), meta.state().refcount()), (0, 0, 1), "only the index's is left");
        assert_eq!(is_last(meta.put()), 1);
    });
}

/// A frame of an object, with the reference of its index, that one entry maps.
fn mapped_object_frame() -> Arc<FrameMeta<TestCpu>> {
    let meta = Arc::new(FrameMeta::of_model());
    become_object_frame(&meta, 1);
    map_without_reference(&meta);
    meta
}

fn become_object_frame(meta: &FrameMeta<TestCpu>, object: u64) {
    meta.set_state(FrameState::TAKEN_FRAME);
    meta.set_owner(object, 0);
    meta.begin_as_objects_frame();
    assert!(meta.put_to_use(Kind::Object));
}

/// What a fault does under the lock of its table. `false` where it is no object's frame.
fn map_without_reference(meta: &FrameMeta<TestCpu>) -> bool {
    if meta.add_mapping_of_object() {
        return true;
    }
    let is_there = meta.try_get();
    if is_there {
        map(meta);
    }
    is_there
}

#[test]
fn loom_a_mapping_without_a_reference_against_a_late_flush() {
    run_model(UNBOUNDED, || {
        let meta = mapped_object_frame();
        let other = meta.clone();
        let fault = crate::sync::testing::thread::spawn(move || {
            TestCpu::become_cpu(1);
            assert!(map_without_reference(&other));
            assert!(other.mapcount() > 0 && other.state().refcount() > 0, "a frame is mapped, and not held");
            unmap(&other)
        });
        let late = unmap(&meta);
        let freed = fault.join().unwrap() + late;
        assert_eq!((freed, meta.mapcount(), meta.state().refcount()), (0, 0, 1), "only the index's is left");
    });
}

/// The frame leaves its object, which puts its reference at once, and is freed: it is a table next, whose
/// lock is taken.
#[test]
fn loom_a_frame_that_has_become_a_table_is_not_counted() {
    let seen: &'static [AtomicUsize; 2] = std::boxed::Box::leak(std::boxed::Box::default());
    run_model(UNBOUNDED, move || {
        let meta = mapped_object_frame();
        let other = meta.clone();
        let fault = crate::sync::testing::thread::spawn(move || {
            TestCpu::become_cpu(1);
            let is_mapped = other.add_mapping_of_object();
            seen[usize::from(is_mapped)].fetch_add(1, Relaxed);
            is_mapped && unmap(&other) == 1
        });
        assert_eq!(is_last(meta.put()), 0, "the entry has a reference");
        let is_freed = unmap(&meta) == 1;
        if is_freed {
            meta.end_as_frame();
            assert!(meta.put_to_use(Kind::Table));
            meta.set_used_parts(u32::MAX);
            meta.set_mapcount(1);
        }
        assert_ne!(fault.join().unwrap(), is_freed, "it is freed once");
        if is_freed {
            assert_eq!(
                (meta.mapcount(), meta.used_parts()),
                (1, u32::MAX),
                "the lock of a table was counted up"
            );
        }
    });
    assert!(seen.iter().all(|count| count.load(Relaxed) > 0), "the model must see both");
}

/// The frame leaves its object, is freed, and becomes another object's: a fault of the first that has counted
/// a mapping of that finds its object without the frame.
#[test]
fn loom_a_frame_that_another_object_has_now_is_found_missing() {
    run_model(UNBOUNDED, || {
        let meta = mapped_object_frame();
        let slot = Arc::new(AtomicU64::<TestCpu>::new(1));
        assert_eq!(slot.load(Relaxed), 1, "a word of the model from now on");
        let (other, same) = (meta.clone(), slot.clone());
        let fault = crate::sync::testing::thread::spawn(move || {
            TestCpu::become_cpu(1);
            if !other.add_mapping_of_object() {
                return false;
            }
            if same.load(Acquire) == 1 {
                assert_eq!(other.owner(), (1, 0), "another object's frame is mapped");
            }
            unmap(&other) == 1
        });
        slot.swap(0, AcqRel);
        assert_eq!(is_last(meta.put()), 0, "the entry has a reference");
        if unmap(&meta) == 1 {
            meta.end_as_frame();
            become_object_frame(&meta, 2);
            assert!(map_without_reference(&meta));
        }
        fault.join().unwrap();
    });
}

#[test]
fn loom_two_entries_use_a_frame_before_the_last_of_them_frees_it() {
    run_model(UNBOUNDED, || {
        let meta = mapped_frame();
        assert_eq!(meta.add_mapping(), Some(1));
        let contents = Arc::new(UnsafeCell::new(0));
        let use_and_unmap = |meta: &FrameMeta<TestCpu>, contents: &UnsafeCell<u32>| {
            // SAFETY: loom checks that no thread writes meanwhile.
            contents.with(|byte| assert_eq!(unsafe { *byte }, 0));
            let freed = unmap(meta);
            if freed == 1 {
                // SAFETY: loom checks that no thread reads meanwhile.
                contents.with_mut(|byte| unsafe { *byte = 1 });
            }
            freed
        };
        let (other, same) = (meta.clone(), contents.clone());
        let unmapper = crate::sync::testing::thread::spawn(move || {
            TestCpu::become_cpu(1);
            use_and_unmap(&other, &same)
        });
        let freed = use_and_unmap(&meta, &contents);
        assert_eq!(freed + unmapper.join().unwrap(), 1);
    });
}

/// A thread that gets a reference to user memory that is being made sees its anon key.
#[test]
fn loom_a_reference_comes_with_the_anon_key() {
    let seen: &'static [AtomicUsize; 2] = std::boxed::Box::leak(std::boxed::Box::default());
    run_model(UNBOUNDED, move || {
        let meta = user_frame();
        assert_eq!(meta.put(), Some(FrameState::TAKEN_FRAME));
        let key = AnonKey { node: AnonNodeId(NonZeroU32::MIN), page: Vpn(7) };
        let other = meta.clone();
        let walker = crate::sync::testing::thread::spawn(move || {
            TestCpu::become_cpu(1);
            other.try_get().then(|| other.anon_key())
        });
        meta.become_mapped_user(Some(key));
        let found = walker.join().unwrap();
        assert!(found.is_none_or(|found| found == Some(key)), "{found:?}");
        seen[usize::from(found.is_some())].fetch_add(1, Relaxed);
    });
    assert!(seen.iter().all(|count| count.load(Relaxed) > 0), "the model must see both");
}
