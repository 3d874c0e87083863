//! Stacks, batches and packed words.

use super::*;
use crate::frame::Init;
use crate::machine::testing::TestCpu;
use crate::units::Pfn;

const ALL: u64 = 64;
type Small = Stack<TestCpu, [Plain<u64, TestCpu>; ALL as usize]>;

fn small() -> Small {
    Stack::new([const { Plain::new(0) }; ALL as usize])
}

#[test]
fn the_warmest_word_is_popped_first_and_the_coldest_are_spilled() {
    let (mut stack, count) = (small(), Count::new());
    assert!((0..ALL).all(|word| stack.push(&count, word)));
    assert!(!stack.push(&count, 99));
    assert_eq!(stack.pop(&count), Some(ALL - 1));
    let mut batch = [0; 32];
    assert_eq!(stack.take_coldest(&count, &mut batch), 32);
    assert_eq!((batch[0], batch[31]), (0, 31));
    assert_eq!(stack.words(&count).next(), Some(32));
    assert_eq!(stack.take_coldest(&count, &mut batch), 31);
    assert_eq!((stack.pop(&count), count.len(), count.popped()), (None, 0, 1));
}

#[test]
fn a_refill_is_popped_in_order_and_the_words_that_do_not_fit_are_left_over() {
    let (mut stack, count) = (small(), Count::new());
    assert_eq!(stack.refill(&count, &[1, 2, 3]), 0);
    assert_eq!(stack.pop(&count), Some(1));
    let more: std::vec::Vec<_> = (10..10 + ALL).collect();
    assert_eq!(stack.refill(&count, &more), 2);
    assert_eq!((count.len(), stack.pop(&count), stack.pop(&count)), (ALL as usize, Some(12), Some(13)));
    assert_eq!(stack.words(&count).next(), Some(3));
}

#[test]
fn a_batch_pushed_together_is_popped_last_first() {
    let (mut stack, count) = (small(), Count::new());
    let many: std::vec::Vec<_> = (0..ALL - 1).collect();
    assert_eq!(stack.push_batch(&count, &many), many.len());
    assert_eq!(stack.push_batch(&count, &[100, 101]), 1);
    assert_eq!([stack.pop(&count), stack.pop(&count)], [Some(100), Some(ALL - 2)]);
}

#[test]
fn batches_double_in_one_direction_and_start_small_after_a_turn() {
    let last = LastBatch::<TestCpu>::new();
    let mut next = |kind| last.next(kind, MAX_BATCH);
    assert_eq!([BatchKind::Refill; 4].map(&mut next), [BATCH, 2 * BATCH, MAX_BATCH, MAX_BATCH]);
    assert_eq!([BatchKind::Spill; 2].map(&mut next), [BATCH, 2 * BATCH]);
    assert_eq!(next(BatchKind::Refill), BATCH);
}

#[test]
fn a_word_keeps_frame_and_mark() {
    for frame in [(Pfn(5), Init::Zeroed), (Pfn((1 << 40) - 1), Init::Dirty)] {
        assert_eq!(unpack(pack(frame)), frame);
    }
}
