//! Allocators that do not keep what they say.

use super::*;
use crate::machine::testing::TestCpu;
use crate::sync::PerCpu;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::vec;

/// Returns the bytes that it has, whatever is asked for.
struct Wrong<'m>(Option<&'m mut [MaybeUninit<u8>]>);

impl<'m> Carve<'m> for Wrong<'m> {
    fn carve(&mut self, _: Layout) -> Option<&'m mut [MaybeUninit<u8>]> {
        self.0.take()
    }
}

fn refused(bytes: &mut [MaybeUninit<u8>]) -> bool {
    let carve = || PerCpu::<u64, TestCpu>::carve(&mut Wrong(Some(bytes)), 1, |_| 7).is_some();
    catch_unwind(AssertUnwindSafe(carve)).is_err()
}

#[test]
fn carved_memory_that_is_too_small_or_not_aligned_is_refused() {
    let mut memory = vec![MaybeUninit::uninit(); 1024];
    let skip = memory.as_ptr().align_offset(256);
    let memory = &mut memory[skip..];
    assert!(refused(&mut memory[..16]), "too small");
    assert!(refused(&mut memory[8..512]), "not aligned");
    assert!(refused(&mut []), "nothing");
    let slots = PerCpu::<u64, TestCpu>::carve(&mut Wrong(Some(memory)), 1, |_| 7).unwrap();
    assert_eq!(*slots.get_cpu(), 7);
    assert!(PerCpu::<u64, TestCpu>::carve(&mut Wrong(None), 1, |_| 7).is_none());
}

#[test]
fn an_array_larger_than_the_address_space_is_not_carved() {
    assert!(carve_slice::<[u64; 1 << 20]>(&mut Wrong(Some(&mut [])), usize::MAX >> 10).is_none());
}

#[test]
fn more_values_than_slots_are_refused() {
    let mut slots = [const { MaybeUninit::uninit() }; 2];
    let push = |count: u32| move |push: &mut dyn FnMut(u32)| (0..count).for_each(push);
    assert_eq!(fill_some(&mut slots, push(1)), [0]);
    assert_eq!(fill_some(&mut slots, push(2)), [0, 1]);
    assert!(catch_unwind(AssertUnwindSafe(|| fill_some(&mut slots, push(3)).len())).is_err());
    assert_eq!(fill(&mut slots, |at| at as u32 + 5), [5, 6]);
}
