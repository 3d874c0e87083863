//! The steps of `cargo xtask test` and `cargo xtask ci`, in order.

use crate::runner::{Action, Step};
use crate::{boots, layers, lines, mutate, size, width, words};
use std::process::Command;

/// Every test there is.
pub fn test() -> Vec<fn() -> Step> {
    vec![
        layering,
        workspace_tests,
        hostile_calls,
        models,
        no_std_links,
        no_std_link_can_fail,
        programs_on_host,
        kernel_boots,
        programs_boot,
        watched_faults,
        one_breakage,
        small_benchmarks,
        small_tour,
        fuzzing,
    ]
}

/// Everything that must hold before a change lands: how the sources look, too.
pub fn ci() -> Vec<fn() -> Step> {
    let mut steps: Vec<fn() -> Step> =
        vec![formatting, lints, kernel_lints, documentation, sizes, widths, names];
    steps.extend(test());
    steps
}

fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.args(arguments);
    command
}

fn formatting() -> Step {
    Step { name: "formatting", action: Action::Command(cargo(&["fmt", "--all", "--check"])) }
}

fn lints() -> Step {
    let clippy = cargo(&["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"]);
    Step { name: "lints", action: Action::Command(clippy) }
}

/// The kernel and its programs, in their own profile: other profiles compile hardly any of their code.
const KERNEL_PACKAGES: &[&str] = &["interleaf-kernel", "interleaf-programs"];

fn kernel_lints() -> Step {
    let mut clippy = cargo(&["clippy", "--quiet", "--profile", "kernel", "--all-targets"]);
    clippy.args(KERNEL_PACKAGES.iter().flat_map(|package| ["--package", package]));
    clippy.args(["--", "-D", "warnings"]);
    Step { name: "lints of the kernel's shelf", action: Action::Command(clippy) }
}

fn documentation() -> Step {
    let mut doc = cargo(&["doc", "--quiet", "--no-deps", "--workspace"]);
    doc.env("RUSTDOCFLAGS", "-D warnings");
    Step { name: "documentation", action: Action::Command(doc) }
}

fn sizes() -> Step {
    Step { name: "sizes of files", action: Action::Chore(size::check_and_print) }
}

fn widths() -> Step {
    Step { name: "widths of lines", action: Action::Chore(width::check_and_print) }
}

fn names() -> Step {
    Step { name: "names of types", action: Action::Chore(words::check_and_print) }
}

fn layering() -> Step {
    Step { name: "layers and unsafe", action: Action::Chore(layers::check_and_print) }
}

fn workspace_tests() -> Step {
    Step { name: "tests", action: Action::Command(cargo(&["test", "--quiet", "--workspace"])) }
}

/// Every public function with hostile arguments, as users build it: the workspace's tests have debug
/// assertions.
fn hostile_calls() -> Step {
    let test = cargo(&["test", "--quiet", "--profile", "optimised", "--package", "interleaf-hostile"]);
    Step { name: "hostile calls, without debug assertions", action: Action::Command(test) }
}

/// The loom models: the library's tests whose names begin with `loom_`, under `cfg(loom)`.
fn models() -> Step {
    let mut test = cargo(&["test", "--quiet", "--package", "interleaf", "--profile", "optimised", "--lib"]);
    test.args(["--target-dir", "target-loom", "loom_"]).env("RUSTFLAGS", "--cfg loom");
    Step { name: "loom models", action: Action::Models(test) }
}

fn no_std() -> Command {
    let mut build = cargo(&["build", "--quiet", "--manifest-path", "checks/no-std/Cargo.toml"]);
    build.args(["--target-dir", "target-no-std"]);
    build
}

/// A program with its own panic handler links only if no dependency needs the standard library.
fn no_std_links() -> Step {
    Step { name: "the library links without std", action: Action::Command(no_std()) }
}

/// The same program with std as a dependency must be refused, or the step above shows nothing.
fn no_std_link_can_fail() -> Step {
    let mut build = no_std();
    build.args(["--features", "drag-std-in"]);
    let action = Action::Refused(build, "found duplicate lang item `panic_impl`");
    Step { name: "a program that drags std in is refused", action }
}

/// The programs for ring 3 hold on Linux, whose system calls they use.
fn programs_on_host() -> Step {
    Step { name: "programs for ring 3, on the host", action: Action::Chore(boots::on_host) }
}

/// The kernel's own tests, booted.
fn kernel_boots() -> Step {
    Step { name: "the kernel boots", action: Action::Chore(boots::self_tests) }
}

/// One mutation point, so that the chore that plays all of them keeps working.
fn one_breakage() -> Step {
    Step { name: "one breakage of the library is noticed", action: Action::Chore(mutate::sample) }
}

/// The programs again, in the kernel.
fn programs_boot() -> Step {
    Step { name: "programs for ring 3, booted", action: Action::Chore(boots::in_ring_3) }
}

/// The lines that faults fight for, as the emulator sees it.
fn watched_faults() -> Step {
    Step { name: "faults watched by the emulator", action: Action::Chore(lines::run) }
}

fn small_benchmarks() -> Step {
    let bench = cargo(&["run", "--quiet", "--bin", "interleaf", "--", "bench", "--small", "--check"]);
    Step { name: "benchmarks, small", action: Action::Quiet(bench) }
}

/// A minute of random cases, sequences for the host's Linux among them: other ones each time. The seed is
/// printed, and what fails is reported with its case.
fn fuzzing() -> Step {
    let fuzz = cargo(&["run", "--quiet", "--bin", "interleaf", "--", "check", "fuzz", "--seconds", "60"]);
    Step { name: "fuzzers, a minute", action: Action::Command(fuzz) }
}

fn small_tour() -> Step {
    let tour = cargo(&["run", "--quiet", "--bin", "interleaf", "--", "tour", "--small"]);
    Step { name: "tour, small", action: Action::Quiet(tour) }
}
