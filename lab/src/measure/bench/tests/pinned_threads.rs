use super::*;
use crate::measure::bench::Options;

#[test]
fn every_member_works_once_on_its_own_cpu() {
    let cpus = Options::full().cpus;
    let seen: Vec<AtomicUsize> = cpus.iter().map(|_| AtomicUsize::new(0)).collect();
    together(&cpus, |index| {
        assert_eq!(affinity::allowed().unwrap(), [cpus[index]]);
        seen[index].fetch_add(1, Ordering::Relaxed);
    });
    assert!(seen.iter().all(|s| s.load(Ordering::Relaxed) == 1));
}

#[test]
fn no_threads_take_no_time() {
    assert_eq!(together(&[], |_| panic!("no thread works")), Duration::ZERO);
}
