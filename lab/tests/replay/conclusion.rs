//! What a replay comes to, of the shipped traces.

use super::shipped;
use interleaf_lab::replay::Conclusion;

#[test]
fn a_program_of_many_threads_has_all_numbers() {
    let conclusion = Conclusion::of(shipped("churn.trace"));
    let linux = conclusion.linux.expect("it was recorded whole");
    assert!(linux.threads > 1 && linux.faults > 0 && linux.calls > 0, "{linux:?}");
    assert!(linux.calls_ns > 0 && linux.calls_ns < linux.lived_ns, "{linux:?}");
    assert!(
        linux.faults_estimated_ns > 0 && linux.faults_estimated_ns <= linux.faults_at_most_ns,
        "{linux:?}"
    );
    assert!(linux.beside_calls > 0 && linux.beside_calls <= linux.faults, "{linux:?}");
    assert!(linux.waited_at_most_ns <= linux.faults_at_most_ns, "{linux:?}");
    assert_eq!(conclusion.here.iter().map(|here| here.huge).collect::<Vec<_>>(), ["never", "always"]);
    assert!(conclusion.here.iter().all(|here| here.locked_us > 0.0 && here.speculative_us > 0.0));
    assert_eq!(conclusion.lacks, [""; 0]);
}

#[test]
fn a_program_that_forks_has_its_forks_apart_from_its_calls() {
    let conclusion = Conclusion::of(shipped("fork.trace"));
    let linux = conclusion.linux.expect("it was recorded whole");
    assert!(linux.forks > 0 && linux.forks_ns > 0, "{linux:?}");
}
