use super::*;

#[test]
fn done_fallbacks_and_errors_are_all_faults() {
    let mut counts = TaskCounts::new(Timing::EachFault);
    counts.count(Ok(Outcome::Speculated));
    counts.count(Ok(Outcome::VmaLocked));
    counts.count(Ok(Outcome::Locked));
    Fallback::ALL.into_iter().for_each(|reason| counts.count(Ok(Outcome::FellBack(reason))));
    counts.count(Err(FaultError::NotMapped));
    const REASONS: usize = Fallback::ALL.len();
    let faults = REASONS as u64 + 4;
    assert_eq!((counts.faults(), counts.fell_back), (faults, [1; REASONS]));
    let mut sum = counts.clone();
    sum.add(&counts);
    assert_eq!((sum.faults(), sum.errors), (2 * faults, 2));
}

#[test]
fn a_sum_knows_the_latencies_of_all() {
    let timed = |nanoseconds: u64| {
        let mut counts = TaskCounts::new(Timing::EachFault);
        counts.took(Duration::from_nanos(nanoseconds));
        counts
    };
    let mut sum = timed(100);
    sum.add(&timed(900));
    let latency = sum.latency().unwrap();
    assert_eq!((latency.len(), latency.min(), latency.max()), (2, 100, 900));
    assert!(TaskCounts::new(Timing::None).latency().is_none());
}
