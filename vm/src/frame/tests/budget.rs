//! What may be taken of a zone, and where it is counted.

use super::*;

const MARK: Watermark = Watermark { min: 10, low: 12, high: 15 };
const PLENTY: u64 = 2 * (MARK.high + 1024);

type TestBudget = Budget<crate::machine::testing::TestCpu>;

fn settled(frames: u64) -> TestBudget {
    let budget = TestBudget::new(MARK);
    budget.add(frames);
    budget
}

#[test]
fn a_settled_budget_leaves_what_the_priority_leaves() {
    let budget = settled(20);
    assert!(budget.is_exact());
    assert_eq!(budget.take(1, 100, Priority::NoWait), 8);
    assert_eq!(budget.take(3, 100, Priority::Normal), 0);
    assert!(!budget.may_allow(3, Priority::Normal) && budget.may_allow(2, Priority::Normal));
    assert_eq!(budget.take(1, 100, Priority::Normal), 2);
    // What only the reserve may have is given out one by one.
    assert_eq!(budget.take_for_cache(32, Priority::Normal), 0);
    assert_eq!(budget.take_for_cache(32, Priority::Reserve), 1);
    assert_eq!(budget.take(1, 100, Priority::Reserve), 9);
    assert_eq!(budget.take_for_cache(32, Priority::Reserve), 0);
    budget.add(11);
    assert_eq!(budget.take_for_cache(32, Priority::Reserve), 1);
}

#[test]
fn regions_get_credit_where_there_is_plenty_and_leave_the_high_mark() {
    let budget = settled(PLENTY);
    assert!(budget.is_exact());
    assert_eq!(budget.assign(5), 0);
    budget.add(1);
    assert!(!budget.is_exact());
    assert_eq!(budget.assign(5), 5);
    assert!(budget.may_allow(1 << 40, Priority::NoWait), "only the regions know");
    assert_eq!(budget.assign(1 << 40), PLENTY + 1 - 5 - MARK.high);
    assert_eq!(budget.assign(1), 0);
    assert_eq!(budget.take(1, 1, Priority::Normal), 0, "the high mark is left");
    budget.be_exact();
    assert_eq!(budget.take(1, 1 << 40, Priority::Normal), MARK.high - MARK.min);
    budget.add_back(PLENTY);
    assert!(budget.is_exact(), "as long as regions are asked");
    assert_eq!(budget.take(1, 1, Priority::Normal), 1);
    assert!(!budget.is_exact());
}
