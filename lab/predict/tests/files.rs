//! Files: CPUs that store to their own share nothing that costs, and one page that all map costs what its
//! line does.

use interleaf::space::Path;
use interleaf_lab::machine::sim::{Profile, Setting};
use interleaf_predict::workload::Named;
use interleaf_predict::{LineLimit, Sample};

fn setting() -> Setting {
    Setting::new(Profile::built_in("cascade-lake").expect("it is one of the repository's").costs)
}

fn named(name: &str) -> Named {
    Named::find(name).expect("it is there")
}

fn sample(name: &str, cpus: u32) -> Sample {
    named(name).run(setting(), Path::Speculative, cpus).expect("it runs")
}

#[test]
fn stores_to_own_files_keep_their_rate_and_no_line_is_waited_for() {
    for name in [
        "page_fault2",
        "page_fault3",
        "page_fault3_written",
        "page_fault2_processes",
        "page_fault3_processes",
    ] {
        let (one, many) = (sample(name, 1), sample(name, 64));
        let kept = many.rate_per_cpu / one.rate_per_cpu;
        assert!(kept >= 0.95, "{name}: {kept}");
        let shared = |wait: &&interleaf_predict::NamedWait| wait.mostly() != "drained" && wait.share > 0.02;
        assert!(!many.waits.iter().any(|wait| shared(&wait)), "{name}: {:?}", many.waits);
        assert_eq!(many.operations, 64 * one.operations, "{name}");
    }
}

#[test]
fn one_page_is_mapped_as_often_as_its_line_allows() {
    let (most, sample) = (named("one_library_page"), sample("one_library_page", 64));
    let limit = LineLimit::of(&most, setting(), 64).expect("it runs").expect("there is one");
    let reached = sample.rate / limit.rate;
    assert!((0.4..=1.0).contains(&reached), "{} of {limit:?}", sample.rate);
    let records: f64 =
        sample.waits.iter().filter(|wait| wait.field == "the record of a frame").map(|wait| wait.share).sum();
    assert!(records > 0.9, "{:?}", sample.waits);
}

#[test]
fn only_workloads_about_one_line_have_its_limit() {
    let limit = LineLimit::of(&named("page_fault3"), setting(), 4).expect("it runs");
    assert_eq!(limit, None);
}
