//! What is played, by its seed; `lab/tests/experiments` has whole runs.

use super::*;

#[test]
fn cases_follow_from_the_seed_alone() {
    let cases = |seed| {
        let limit = FuzzLimit::Executions(1);
        let config = FuzzConfig { seed, limit, groups: Vec::new(), jobs: 2, parsers: Vec::new() };
        let runner = Runner::new(config);
        Group::ALL.map(|group| [runner.next_case(group), runner.next_case(group)])
    };
    assert_eq!(cases(1), cases(1));
    let mut all: Vec<u64> = [cases(1), cases(2)].concat().concat();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 2 * 2 * Group::ALL.len());
}
