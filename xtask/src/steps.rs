//! The steps of `cargo xtask test` and `cargo xtask ci`, each lane's in order.

use crate::runner::{Action, Lane, Step};
use crate::{boots, layers, new_kind, size, width, words};
use std::process::Command;

/// Every test there is.
pub fn test() -> Vec<fn() -> Step> {
    vec![
        layering,
        library_tests,
        workspace_tests,
        models,
        hostile_calls,
        no_std_links,
        no_std_link_can_fail,
        programs_on_host,
        kernel_boots,
        programs_boot,
        watched_faults,
        one_breakage,
        small_benchmarks,
        small_tour,
        other_tests,
    ]
}

/// The packages whose tests either lane takes at its end, so that both end together.
const OTHER_PACKAGES: &[&str] = &["interleaf-predict", "interleaf-kernel", "interleaf-programs", "xtask"];

/// Everything that must hold before a change lands: how the sources look, too, a patch that brings in a kind
/// of memory, and a minute of fuzzing, which is another one each time.
pub fn ci() -> Vec<fn() -> Step> {
    let mut steps: Vec<fn() -> Step> =
        vec![formatting, lints, kernel_lints, documentation, sizes, widths, names];
    steps.extend(test());
    steps.extend([another_kind as fn() -> Step, fuzzing]);
    steps
}

/// A step among those that run one after the other.
fn first(name: &'static str, action: Action) -> Step {
    Step { name, action, lane: Lane::First }
}

/// A step that runs beside those: it builds in a directory of its own, or comes so late that the other one's
/// builds have ended.
fn beside(name: &'static str, action: Action) -> Step {
    Step { name, action, lane: Lane::Beside }
}

fn cargo(arguments: &[&str]) -> Command {
    let mut command = crate::cargo();
    command.args(arguments);
    command
}

fn formatting() -> Step {
    first("formatting", Action::Command(cargo(&["fmt", "--all", "--check"])))
}

fn lints() -> Step {
    let clippy = cargo(&["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"]);
    first("lints", Action::Command(clippy))
}

/// The kernel and its programs, in their own profile: other profiles compile hardly any of their code.
const KERNEL_PACKAGES: &[&str] = &["interleaf-kernel", "interleaf-programs"];

fn kernel_lints() -> Step {
    let mut clippy = cargo(&["clippy", "--quiet", "--profile", "kernel", "--all-targets"]);
    clippy.args(KERNEL_PACKAGES.iter().flat_map(|package| ["--package", package]));
    clippy.args(["--", "-D", "warnings"]);
    first("lints of the kernel's shelf", Action::Command(clippy))
}

fn documentation() -> Step {
    let mut doc = cargo(&["doc", "--quiet", "--no-deps", "--workspace"]);
    doc.env("RUSTDOCFLAGS", "-D warnings");
    first("documentation", Action::Command(doc))
}

fn sizes() -> Step {
    first("sizes of files", Action::Chore(size::check_and_print))
}

fn widths() -> Step {
    first("widths of lines", Action::Chore(width::check_and_print))
}

fn names() -> Step {
    first("names of types", Action::Chore(words::check_and_print))
}

fn layering() -> Step {
    first("layers and unsafe", Action::Chore(layers::check_and_print))
}

/// The library's tests, with the mutation points in it and none of them on: the same program plays one of
/// them in [`one_breakage`].
fn library_tests() -> Step {
    let mut test = cargo(&["test", "--quiet", "--package", "interleaf", "--features", "mutants"]);
    test.args(["--profile", "unit", "--no-fail-fast"]);
    first("tests of the library", Action::Command(test))
}

/// The library's tests of a kind of memory that is not in it: a patch brings it in.
fn another_kind() -> Step {
    first("a new kind of memory comes in by few files", Action::Chore(new_kind::check_and_print))
}

/// The tests of the lab and of what checks the library, on the library as its users build it.
fn workspace_tests() -> Step {
    let mut test = cargo(&["test", "--quiet", "--workspace", "--no-fail-fast"]);
    let others = OTHER_PACKAGES.iter().chain(&["interleaf"]);
    test.args(others.flat_map(|package| ["--exclude", package]));
    first("tests", Action::Command(test))
}

/// All other tests.
fn other_tests() -> Step {
    let mut test = cargo(&["test", "--quiet", "--no-fail-fast"]);
    test.args(OTHER_PACKAGES.iter().flat_map(|package| ["--package", package]));
    beside("tests of predictions, kernel and chores", Action::Command(test))
}

/// Every public function with hostile arguments, as users build it: the workspace's tests have debug
/// assertions. What calls the library is compiled at level 1, where link-time optimisation changes nothing.
fn hostile_calls() -> Step {
    let mut test = cargo(&["test", "--quiet", "--profile", "optimised", "--package", "interleaf-hostile"]);
    test.args(["--config", "profile.optimised.lto=\"off\""]);
    beside("hostile calls, without debug assertions", Action::Command(test))
}

/// The loom models: the library's tests whose names begin with `loom_`, under `cfg(loom)`.
fn models() -> Step {
    let mut test = cargo(&["test", "--quiet", "--package", "interleaf", "--profile", "optimised", "--lib"]);
    test.args(["--target-dir", "target-loom", "loom_"]).env("RUSTFLAGS", "--cfg loom");
    // A model runs on loom's small stacks, which a backtrace does not fit in: a model that is to fail hangs.
    test.env("RUST_BACKTRACE", "0");
    beside("loom models", Action::Models(test))
}

fn no_std() -> Command {
    let mut build = cargo(&["build", "--quiet", "--manifest-path", "checks/no-std/Cargo.toml"]);
    build.args(["--target-dir", "target-no-std"]);
    build
}

/// A program with its own panic handler links only if no dependency needs the standard library.
fn no_std_links() -> Step {
    beside("the library links without std", Action::Command(no_std()))
}

/// The same program with std as a dependency must be refused, or the step above shows nothing.
fn no_std_link_can_fail() -> Step {
    let mut build = no_std();
    build.args(["--features", "drag-std-in"]);
    let action = Action::Refused(build, "found duplicate lang item `panic_impl`");
    beside("a program that drags std in is refused", action)
}

/// The programs for ring 3 hold on Linux, whose system calls they use.
fn programs_on_host() -> Step {
    first("programs for ring 3, on the host", Action::Chore(boots::on_host))
}

/// A chore of this program that runs beside: in a process of its own, since what runs beside prints at its
/// end.
fn chore_beside(name: &'static str, words: &[&str]) -> Step {
    let mut chore = std::env::current_exe().map_or_else(|_| cargo(&["xtask"]), Command::new);
    chore.args(words);
    beside(name, Action::Command(chore))
}

/// The kernel's own tests, booted.
fn kernel_boots() -> Step {
    chore_beside("the kernel boots", &["boots", "selftests"])
}

/// One mutation point, so that the chore that plays all of them keeps working.
fn one_breakage() -> Step {
    chore_beside("one breakage of the library is noticed", &["mutate", "--sample"])
}

/// The programs again, in the kernel.
fn programs_boot() -> Step {
    chore_beside("programs for ring 3, booted", &["boots", "programs"])
}

/// The lines that faults fight for, as the emulator sees it.
fn watched_faults() -> Step {
    chore_beside("faults watched by the emulator", &["lines"])
}

fn small_benchmarks() -> Step {
    let mut bench = cargo(&["run", "--quiet", "--profile", "test", "--bin", "interleaf", "--"]);
    bench.args(["bench", "--small", "--check"]);
    first("benchmarks, small", Action::Quiet(bench))
}

/// A minute of random cases, sequences for the host's Linux among them: other ones each time. The seed is
/// printed, and what fails is reported with its case.
fn fuzzing() -> Step {
    let mut fuzz = cargo(&["run", "--quiet", "--profile", "test", "--package", "interleaf-check", "--"]);
    fuzz.args(["fuzz", "--seconds", "60"]);
    beside("fuzzers, a minute", Action::Command(fuzz))
}

fn small_tour() -> Step {
    let mut tour = cargo(&["run", "--quiet", "--profile", "test", "--bin", "interleaf", "--"]);
    tour.args(["tour", "--small"]);
    first("tour, small", Action::Quiet(tour))
}
