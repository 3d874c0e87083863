//! Counting down to an injected failure.

use super::*;

#[test]
fn failures_come_in_a_row_from_the_nth_on_and_end() {
    let (mut plan, mut struck) = (3 | (2 * IN_A_ROW), [false; 6]);
    for now in &mut struck {
        *now = plan & LEFT == 1;
        plan = counted_down(plan).unwrap_or(plan);
    }
    assert_eq!(struck, [false, false, true, true, false, false]);
    assert_eq!((plan, counted_down(plan)), (STRUCK, None));
}
