//! What must be found is found: planted faults are named by site, with the loss that the profile says; and
//! what must not change a prediction does not.

use interleaf::space::Path;
use interleaf::sync::atomic::{AtomicU64, Ordering::*};
use interleaf_lab::machine::sim::{Costs, Profile, Setting, Sim, measured, meet};
use interleaf_predict::workload::Named;
use interleaf_predict::{Bottleneck, NamedWait, Operations, Point, Sample, Space, System, Workload, run};

/// Work of a CPU between two additions: loads of a line of its own. It takes longer than the CPU keeps a line
/// that another asks for.
const LOADS: u64 = 60;
const ADDITIONS: u64 = 200;

/// Which words CPUs add to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Planted {
    /// All to one: a shared counter.
    Counter,
    /// Each to one of its own, eight of which lie on one line: false sharing.
    Neighbours,
    /// Each to one of its own, on a line of its own.
    Nothing,
}

#[repr(align(64))]
struct Line([AtomicU64<Sim>; 8]);

impl Workload for Planted {
    type Shared<'v> = Vec<Line>;

    fn frames(&self, _: u32) -> u64 {
        0
    }

    fn prepare<'v>(&self, _: &Space<'v>, _: Path, cpus: u32) -> Vec<Line> {
        (0..2 * cpus).map(|_| Line(std::array::from_fn(|_| AtomicU64::new(0)))).collect()
    }

    fn run<'v>(&self, on: &System<'_, 'v>, lines: &Vec<Line>) -> Operations {
        let cpu = on.cpu as usize;
        let own = &lines[on.nr_cpus as usize + cpu].0[0];
        let word = match self {
            Planted::Counter => &lines[0].0[0],
            Planted::Neighbours => &lines[cpu / 8].0[cpu % 8],
            Planted::Nothing => &lines[cpu].0[0],
        };
        let mut done = Operations::default();
        own.store(1, Relaxed);
        meet();
        measured(|| {
            (0..ADDITIONS).for_each(|_| {
                done.operation(|_| {
                    (0..LOADS).for_each(|_| assert_eq!(own.load(Relaxed), 1));
                    word.fetch_add(1, Relaxed); // the site that must be named
                });
            });
        });
        done
    }
}

fn setting() -> Setting {
    Setting::new(costs())
}

fn costs() -> Costs {
    Profile::built_in("cascade-lake").expect("it is one of the repository's").costs
}

fn sample(planted: Planted, cpus: u32) -> Sample {
    run(setting(), &planted, Path::Speculative, cpus).expect("all CPUs come to their ends")
}

/// Where the planted word is added to, by this file.
fn site() -> String {
    let line =
        include_str!("controls.rs").lines().position(|line| line.ends_with("// the site that must be named"));
    format!("lab/predict/tests/controls.rs:{}", line.expect("it is marked") + 1)
}

fn first(sample: &Sample) -> &NamedWait {
    sample.waits.first().expect("CPUs waited")
}

#[test]
fn a_planted_counter_is_named_by_its_site_with_the_loss_that_its_line_costs() {
    let sample = sample(Planted::Counter, 16);
    let wait = first(&sample);
    assert_eq!((wait.site.clone(), wait.lines), (site(), 1), "{wait:?}");
    // One line is handed on at a time.
    let expected = 1e12 / (16 * costs().cluster) as f64;
    assert!(
        (0.95..1.05).contains(&(sample.rate_per_cpu / expected)),
        "{} of {expected}",
        sample.rate_per_cpu
    );
    assert!(wait.share > 0.9, "{wait:?}");
}

#[test]
fn planted_false_sharing_is_named_by_its_site_with_the_loss_of_eight_neighbours() {
    let sample = sample(Planted::Neighbours, 16);
    let wait = first(&sample);
    assert_eq!((wait.site.clone(), wait.lines), (site(), 2), "{wait:?}");
    let expected = 1e12 / (8 * costs().cluster) as f64;
    assert!(
        (0.95..1.05).contains(&(sample.rate_per_cpu / expected)),
        "{} of {expected}",
        sample.rate_per_cpu
    );
}

/// The way of a line includes the read-modify-write that wants it, which stays without the way.
#[test]
fn what_removing_a_bottleneck_would_give_is_what_it_gives_but_for_the_instruction_itself() {
    let with = Point::of(Path::Speculative, 16, &[sample(Planted::Counter, 16)]);
    let bottleneck = Bottleneck::of(&with).expect("there is one");
    let told = 1e12 / bottleneck.rate_per_cpu_without + costs().update as f64;
    let found = 1e12 / sample(Planted::Nothing, 16).rate_per_cpu;
    assert!((0.97..1.03).contains(&(told / found)), "{told} {found} {bottleneck:?}");
}

#[test]
fn words_on_lines_of_their_own_cost_nothing_on_any_number_of_cpus() {
    let (one, many) = (sample(Planted::Nothing, 1), sample(Planted::Nothing, 64));
    assert!((0.97..1.03).contains(&(many.rate_per_cpu / one.rate_per_cpu)));
    assert!(many.waits.iter().all(|wait| wait.share < 0.01), "{:?}", many.waits.first());
}

fn named(name: &str, setting: Setting, path: Path, cpus: u32) -> Sample {
    Named::find(name).and_then(|workload| workload.run(setting, path, cpus)).expect("it runs")
}

#[test]
fn a_run_is_a_function_of_its_setting() {
    let run = |seed| named("malloc1", Setting { seed, ..setting() }, Path::Speculative, 4);
    let (first, again, other) = (run(1), run(1), run(2));
    assert_eq!(
        (first.fingerprint, first.accesses, first.p99),
        (again.fingerprint, again.accesses, again.p99)
    );
    assert_ne!(first.fingerprint, other.fingerprint);
}

/// The same twice, but for the seed: what a difference of that size means.
#[test]
fn another_seed_changes_a_rate_by_less_than_one_percent() {
    let rate = |seed| named("page_fault1", Setting { seed, ..setting() }, Path::Speculative, 16).rate;
    let ratio = rate(2) / rate(1);
    assert!((0.99..1.01).contains(&ratio), "{ratio}");
}

#[test]
fn slack_changes_a_rate_by_less_than_one_percent() {
    for (name, path) in [("page_fault1", Path::Speculative), ("zone_frames", Path::Speculative)] {
        let rate = |slack| named(name, Setting { slack, ..setting() }, path, 16).rate;
        let ratio = rate(Setting::SLACK) / rate(0);
        assert!((0.99..1.01).contains(&ratio), "{name}: {ratio}");
    }
}

/// Where all wait for one lock, picoseconds decide which CPU is next: the rate changes by more than without a
/// fight, and by less than with costs halved and doubled.
#[test]
fn slack_changes_the_rate_of_a_fought_for_lock_by_less_than_its_range() {
    let rate = |setting| named("page_fault1", setting, Path::Locked, 16).rate;
    let ratio = rate(setting()) / rate(Setting { slack: 0, ..setting() });
    assert!((0.9..1.1).contains(&ratio), "{ratio}");
    let at = |times| rate(Setting { costs: costs().with_communication(times), ..setting() });
    let apart = at((1, 2)) / at((2, 1));
    assert!(apart > 1.4, "{apart}");
}

#[test]
fn faults_without_the_lock_keep_their_rate_and_those_under_it_do_not() {
    let kept = |path| {
        named("page_fault1", setting(), path, 64).rate_per_cpu
            / named("page_fault1", setting(), path, 1).rate_per_cpu
    };
    let (speculative, locked) = (kept(Path::Speculative), kept(Path::Locked));
    assert!(speculative > 0.9 && locked < 0.1, "{speculative} {locked}");
}
