use super::*;

fn recorded() -> Recorded {
    Recorded {
        threads: 9,
        lived_ns: 1_000_000_000,
        calls: 1234,
        calls_ns: 80_000_000,
        forks: 1,
        forks_ns: 10_000_000,
        faults: 40_000,
        fault_tenth_ns: 700,
        faults_estimated_ns: 28_000_000,
        faults_at_most_ns: 300_000_000,
        beside_calls: 10_000,
        waited_at_most_ns: 41_000_000,
        beside_half_ns: 2300,
        others_half_ns: 2290,
    }
}

fn conclusion(linux: Option<Recorded>) -> Conclusion {
    let here = |huge, locked_us| Here { huge, locked_us, speculative_us: locked_us - 1000.0, replays: 3 };
    Conclusion {
        linux,
        here: vec![here("never", 33_000.0), here("always", 12_400.0)],
        replayed_percent: 100.0,
        has_huge_pages: false,
        lacks: Vec::new(),
        profile: FIGURES,
    }
}

/// The paragraph in one line.
fn words(conclusion: &Conclusion) -> String {
    conclusion.text().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn each_number_is_said_with_its_ground() {
    let text = words(&conclusion(Some(recorded())));
    for part in [
        "Of the 1 s that the run's 9 threads lived, waiting included,",
        "Linux spent about 118 ms (11.8 %) on memory:",
        "80 ms (8.0 %) in 1 234 memory calls and 10 ms (1.0 %) in 1 fork, measured from entry to return",
        "about 28 ms (2.8 %) in 40 000 page faults, estimated at 0.700 us each",
        "all the time up to that event is 30.0 %)",
        "10 000 faults (25.0 %) began while another thread",
        "at most 41 ms together; half of them went on within 2.30 us, half of the others within 2.29 us.",
        "Here the same faults and calls take 32 ms speculative and 33 ms locked without huge pages",
        "11.4 ms speculative and 12.4 ms locked with huge pages always: measured, the median of three",
    ] {
        assert!(text.contains(part), "{part:?} is missing in {text:?}");
    }
}

#[test]
fn what_the_trace_lacks_is_said_instead_of_a_number() {
    let text = words(&conclusion(None));
    assert!(
        text.starts_with("What Linux spent on memory, and what faults waited for, the trace does not tell")
    );
    assert!(text.contains("33 ms locked"), "{text}");
    let mut lacking = conclusion(Some(recorded()));
    lacking.here.pop();
    lacking.lacks.push("with huge pages always nothing was measured: no memory".to_string());
    let text = words(&lacking);
    assert!(text.ends_with("With huge pages always nothing was measured: no memory."), "{text}");
}

#[test]
fn faults_that_met_no_call_and_runs_without_faults_are_said_so() {
    let none = Recorded { beside_calls: 0, faults: 0, faults_estimated_ns: 0, threads: 1, ..recorded() };
    let text = words(&conclusion(Some(none)));
    assert!(
        text.contains("that the run's thread lived, Linux spent about 90 ms (9.0 %) on memory"),
        "{text}"
    );
    assert!(text.contains("; there was no page fault. No fault began while another thread"), "{text}");
}

#[test]
fn a_part_that_is_replayed_and_another_profile_are_said_so() {
    let mut part = conclusion(Some(recorded()));
    part.replayed_percent = 97.256;
    part.profile = "dev";
    part.has_huge_pages = true;
    let text = words(&part);
    for said in [
        "Here the 97.2 % of these that are replayed take",
        "This program is of profile dev",
        "Linux had huge pages",
    ] {
        assert!(text.contains(said), "{said:?} is missing in {text:?}");
    }
}

#[test]
fn lines_are_short_and_no_number_is_broken() {
    let text = conclusion(Some(recorded())).text();
    let longest = text.lines().map(|line| line.chars().count()).max();
    assert!(longest.is_some_and(|longest| longest <= COLUMNS));
    let broken = |line: &str| line.ends_with(|last: char| last.is_ascii_digit());
    assert!(!text.lines().any(broken) && !text.contains(HELD), "{text}");
}
