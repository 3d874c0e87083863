//! What ends a retry.

use super::{NoProgress, Progress, Retry, withhold};
use crate::machine::testing::TestCpu;
use crate::machine::{Context, Cpu};

/// A CPU whose bounded wait is one round, as by default.
enum Plain {}

// SAFETY: all is as on `TestCpu`, whose context and number these are; no thread waits or sleeps.
unsafe impl Cpu for Plain {
    type CpuWords = [u64; 1];

    fn with_context<R>(f: impl FnOnce(&Context) -> R) -> R {
        TestCpu::with_context(f)
    }
}

/// Rounds until the retry ends, of at most as many.
fn rounds(retry: &mut Retry, most: u32, mut progress: impl FnMut(u32) -> Progress) -> Option<u32> {
    (0..most).find(|&nth| retry.again::<Plain>(progress(nth)) == Err(NoProgress))
}

#[test]
fn rounds_in_which_nothing_changes_are_bounded() {
    assert_eq!(rounds(&mut Retry::new("a"), 10_000, |_| Progress::None), Some(4096));
}

#[test]
fn own_steps_are_bounded_by_fewer() {
    assert_eq!(rounds(&mut Retry::new("a"), 10_000, |_| Progress::Own), Some(64));
}

#[test]
fn the_steps_of_others_are_not() {
    let now_and_then = |nth| if nth % 1000 == 0 { Progress::Observed } else { Progress::None };
    assert_eq!(rounds(&mut Retry::new("a"), 100_000, now_and_then), None);
}

#[test]
fn progress_is_withheld_by_name_and_for_a_call() {
    let mut retry = Retry::new("a");
    assert_eq!(withhold("a", || rounds(&mut retry, 10_000, |_| Progress::Observed)), Some(4096));
    assert!(!retry.is_withheld());
    assert_eq!(withhold("b", || rounds(&mut Retry::new("a"), 10_000, |_| Progress::Observed)), None);
}

/// A CPU on which nothing changes: a bounded wait of so many rounds passes in one call.
enum Skips {}

// SAFETY: all is as on `TestCpu`, whose context and number these are; no thread waits or sleeps.
unsafe impl Cpu for Skips {
    type CpuWords = [u64; 1];

    fn with_context<R>(f: impl FnOnce(&Context) -> R) -> R {
        TestCpu::with_context(f)
    }
    fn spin(limit: u32) -> u32 {
        limit
    }
}

/// A retry waits through `Cpu::spin`, and counts the rounds that a platform leaves out.
#[test]
fn rounds_that_a_platform_leaves_out_are_counted() {
    let mut retry = Retry::new("a");
    assert_eq!(retry.again::<Skips>(Progress::None), Ok(()), "all rounds pass in this one");
    assert_eq!(retry.again::<Skips>(Progress::None), Err(NoProgress));
}
