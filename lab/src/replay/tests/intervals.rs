use super::*;

#[test]
fn those_that_overlap_are_asked_and_no_others() {
    for len in 0..40_u64 {
        let one = |n: u64| {
            let start_ns = n * 37 % 50;
            Interval { start_ns, end_ns: start_ns + n * 11 % 20, what: n }
        };
        let all: Vec<_> = (0..len).map(one).collect();
        let intervals = Intervals::of(all.clone());
        for start_ns in 0..60 {
            let end_ns = start_ns + start_ns % 7;
            let mut asked = Vec::new();
            assert!(!intervals.any_in(start_ns, end_ns, |&n| {
                asked.push(n);
                false
            }));
            asked.sort_unstable();
            let overlaps = |one: &&Interval<u64>| one.start_ns <= end_ns && start_ns <= one.end_ns;
            let right: Vec<_> = all.iter().filter(overlaps).map(|one| one.what).collect();
            assert_eq!(asked, right);
        }
    }
}

#[test]
fn one_that_lasts_is_not_asked_for_beside_those_inside_it() {
    let mut all: Vec<_> =
        (0..10_000).map(|n| Interval { start_ns: n * 10, end_ns: n * 10 + 1, what: n }).collect();
    all.push(Interval { start_ns: 0, end_ns: 1 << 40, what: u64::MAX });
    let intervals = Intervals::of(all);
    let mut asked = 0;
    intervals.any_in(50_000, 50_001, |_| {
        asked += 1;
        false
    });
    assert_eq!(asked, 2);
}

#[test]
fn of_none_there_is_none() {
    assert!(!Intervals::<u8>::default().any_in(0, u64::MAX, |_| true));
    assert!(!Intervals::<u8>::of(Vec::new()).any_in(0, u64::MAX, |_| true));
}
