//! Pushes while the values are asked for.

use super::*;
use crate::machine::testing::TestCpu;
use crate::sync::testing::{UNBOUNDED, run_model};
use loom::thread;
use std::sync::Arc;

#[test]
fn loom_bounded_list_has_no_values_while_a_push_is_under_way() {
    run_model(UNBOUNDED, || {
        let list = Arc::new(BoundedList::<u64, TestCpu, 2>::new());
        assert!(list.values().is_some_and(|values| values.is_empty()));
        // A push that stops between its two steps: the place is reserved, and not written.
        list.reserved.fetch_add(1, Relaxed);
        let other = thread::spawn({
            let list = list.clone();
            move || list.push(7)
        });
        assert!(list.values().is_none());
        assert!(other.join().unwrap());
    });
}
