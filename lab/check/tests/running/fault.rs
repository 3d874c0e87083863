//! The workloads, small: every fault is accounted for on both paths, with fewer and more tasks than CPUs.

use interleaf::space::{Counter, Path};
use interleaf_lab::measure::bench::Options;
use interleaf_lab::measure::fault::{Length, RunResult, Setup, Timing, WORKLOADS, Workload, WorkloadMachine};
use interleaf_lab::os::affinity;

/// Pages that a task touches in a round.
const PAGES: u64 = 512;

fn run(workload: Workload, path: Path, threads: usize, cpus: usize) -> RunResult {
    let host_cpus = Options::full().cpus;
    let cpus = cpus.min(host_cpus.len());
    let timing = Timing::EachFault;
    let setup = Setup { workload, path, threads, cpus, pages: PAGES, length: Length::Rounds(3), timing };
    let frames = PAGES * threads as u64 * workload.frames_of_page;
    let machine = WorkloadMachine::new(&host_cpus[..cpus], frames).unwrap();
    let done = machine.with(|runner| runner.run(&setup, |_| {}));
    done.unwrap_or_else(|e| panic!("{}, {path:?}, {threads} tasks on {cpus} CPUs: {e}", workload.name))
}

#[test]
fn every_fault_is_accounted_for_on_both_paths() {
    for &workload in WORKLOADS {
        for path in [Path::Locked, Path::Speculative] {
            for (threads, cpus) in [(1, 1), (2, 1), (2, 2), (5, 2)] {
                let threads = threads.max(workload.least_threads);
                let done = run(workload, path, threads, cpus);
                let sum = &done.sum;
                assert_eq!(done.tasks.len(), threads);
                assert_eq!(sum.errors, 0, "{}", workload.name);
                assert_eq!(sum.faults(), done.counted.get(Counter::PgFault));
                assert_eq!(sum.latency().unwrap().len(), sum.faults());
                let by_path = if path == Path::Locked { sum.locked } else { sum.speculated };
                let fell_back: u64 = sum.fell_back.iter().sum();
                assert_eq!(by_path + fell_back, sum.faults());
                assert!(path == Path::Speculative || fell_back == 0);
            }
        }
    }
}

#[test]
fn each_task_faults_once_on_each_page_of_a_round() {
    for &workload in WORKLOADS.iter().filter(|workload| workload.least_threads == 1) {
        let done = run(workload, Path::Speculative, 3, 2);
        assert_eq!(done.sum.faults(), 3 * 3 * PAGES, "{}", workload.name);
        assert!(done.tasks.iter().all(|task| task.faults() == 3 * PAGES));
    }
}

#[test]
fn threads_are_where_they_were_after_a_run() {
    let before = affinity::allowed().unwrap();
    run(WORKLOADS[0], Path::Speculative, 1, 1);
    assert_eq!(affinity::allowed().unwrap(), before);
}
