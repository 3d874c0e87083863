//! A guest's memory unmapped: counts, at small size; times are not judged.

use interleaf_lab::measure::Options;
use interleaf_lab::measure::teardown::{Report, Row, Unmapping, Way};
use interleaf_lab::os::host_info::HostInfo;

const ENTRIES: u64 = 1500;

#[test]
fn a_walker_is_never_interrupted_and_a_cpu_that_runs_the_space_at_most_once() {
    let options = Options::small();
    let unmapping = Unmapping::new(&options, ENTRIES);
    let cpus = options.cpus.len().min(2) as u64;
    let counts = Way::ALL.map(|way| {
        let run = unmapping.run(way).unwrap();
        assert!(cpus < 2 || way == Way::ByJob || run.walks > 0, "{way:?}: nobody walked");
        assert_eq!(run.faults_ns.is_some(), cpus == 2 && way == Way::RunTwice);
        (run.interrupts, run.flushes)
    });
    assert_eq!(counts[..4], [(0, 0), (ENTRIES, 0), (0, 1), (0, 1)]);
    // The helper runs nothing of the space.
    assert_eq!(counts[5], (0, 1));
    let (interrupts, flushes) = counts[4];
    assert!(flushes == 1 && interrupts < cpus, "{interrupts} for {flushes} flushes");
}

#[test]
fn a_report_says_what_was_counted() {
    let options = Options::small();
    let unmapping = Unmapping::new(&options, ENTRIES);
    let rows = Way::ALL.map(|way| Row::of(way, ENTRIES, &[unmapping.run(way).unwrap()])).to_vec();
    let (setting, entries) = (HostInfo::of_this_machine(), ENTRIES);
    let report = Report { setting, memory_bytes: entries << 21, entries, cpus: 2, rows };
    let text = report.text();
    assert!(text.contains("1 500 huge entries"), "{text}");
    assert!(text.contains("munmap, run by two CPUs"), "{text}");
}
