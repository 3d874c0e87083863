//! `cargo xtask soak NAME`: evidence that takes too long for the tests, which play a small version of each.
//!
//! The command, the commit and the processor are printed before it starts, its seed by the command itself,
//! and how long it took at the end: a row of `docs/results/soak.md`.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// A long run.
#[derive(Debug)]
struct Soak {
    name: &'static str,
    what: &'static str,
    /// The arguments of cargo, by spaces.
    arguments: &'static str,
}

/// All of them.
const SOAKS: &[Soak] = &[
    Soak {
        name: "fuzz",
        what: "10^7 fuzz executions of every group",
        arguments: "run --profile fuzz --package interleaf-check -- fuzz --executions 10000000",
    },
    Soak {
        name: "oracle",
        what: "550 000 sequences of one process, the host's Linux beside the model",
        arguments: "run --profile fuzz --package interleaf-check -- fuzz --only oracle --executions 550000",
    },
    Soak {
        name: "forks",
        what: "20 000 sequences of processes that fork, likewise",
        arguments: "run --profile fuzz --package interleaf-check -- fuzz --only forks --executions 20000",
    },
    Soak {
        name: "oracle-huge",
        what: "150 000 sequences of one process with huge pages by advice, likewise",
        arguments: "run --release --package interleaf-check -- oracle --huge madvise --sequences 150000",
    },
    Soak {
        name: "oracle-huge-forks",
        what: "50 000 sequences of processes that fork, likewise",
        arguments: "run --release --package interleaf-check -- oracle --huge madvise \
                    --processes --sequences 50000",
    },
    Soak {
        name: "pairs",
        what: "1 000 seeds of every pair of operations",
        arguments: "run --release --package interleaf-check -- pairs --seeds 1000",
    },
    Soak {
        name: "conflicts",
        what: "300 states of every pair of operations at every distance, recorded",
        arguments: "run --release --package interleaf-check -- conflicts --states 300",
    },
    Soak {
        name: "walkers",
        what: "1 000 seeds of every walker beside every writer, in three formats",
        arguments: "run --release --package interleaf-check -- walkers --seeds 1000",
    },
    Soak {
        name: "units",
        what: "the library's unit tests with all their random cases, of which the tests play a part",
        arguments: "test --profile fuzz --package interleaf --lib",
    },
    Soak {
        name: "models",
        what: "the loom models, with one preemption more in those that the tests bound for their time",
        arguments: "--config build.rustflags=[\"--cfg\",\"loom\"] test --profile optimised \
                    --package interleaf --lib --target-dir target-loom loom_",
    },
    Soak { name: "mutations", what: "every breakage, each noticed", arguments: "xtask mutate" },
    Soak {
        name: "sweep",
        what: "small programs after public reports: on Linux, in the kernel, recorded and replayed",
        arguments: "xtask sweep",
    },
    Soak { name: "valgrind", what: "the library's unit tests under memcheck", arguments: "xtask valgrind" },
];

/// Runs the one named first; what follows goes to its command.
///
/// # Errors
/// That there is none of that name, or that it failed.
pub fn run(root: &Path, arguments: &[&str]) -> Result<(), String> {
    let (soak, rest) = read(arguments)?;
    let mut cargo = crate::cargo();
    let words: Vec<&str> = soak.arguments.split(' ').chain(rest.iter().copied()).collect();
    cargo.args(&words).env("INTERLEAF_WHOLE", "1").current_dir(root);
    println!("{}: {}", soak.name, soak.what);
    println!("command    cargo {}", words.join(" "));
    println!("commit     {}", printed(root, "git", &["describe", "--always", "--dirty"]));
    println!("processor  {}", processor());
    let start = Instant::now();
    let status = cargo.status().map_err(|e| format!("{cargo:?}: {e}"))?;
    println!("took       {} s, building included", start.elapsed().as_secs());
    if status.success() { Ok(()) } else { Err(format!("{} failed: {status}", soak.name)) }
}

fn read<'a>(arguments: &'a [&'a str]) -> Result<(&'static Soak, &'a [&'a str]), String> {
    let list = || {
        SOAKS.iter().map(|soak| format!("  {:<17}  {}", soak.name, soak.what)).collect::<Vec<_>>().join("\n")
    };
    let [name, rest @ ..] = arguments else { return Err(format!("soak takes a name:\n{}", list())) };
    let soak = SOAKS.iter().find(|soak| soak.name == *name);
    soak.map(|soak| (soak, rest)).ok_or_else(|| format!("there is no soak {name}:\n{}", list()))
}

/// What a program prints, in one line; "unknown" where it cannot be run.
fn printed(root: &Path, program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(root).output().ok();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_string());
    text.filter(|text| !text.is_empty()).unwrap_or("unknown".to_string())
}

/// The processor's name and model numbers, as Linux tells them.
fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = text.lines().find(|line| line.split(':').next().is_some_and(|key| key.trim() == name));
        line.and_then(|line| line.split_once(':')).map_or("unknown", |(_, value)| value.trim()).to_string()
    };
    format!("{}, family {}, model {}", field("model name"), field("cpu family"), field("model"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_soak_is_found_by_its_name_and_passes_the_rest_on() {
        let (soak, rest) = read(&["oracle", "--seed", "7"]).expect("it is there");
        assert_eq!((soak.name, rest), ("oracle", &["--seed", "7"][..]));
    }

    #[test]
    fn what_is_no_soak_is_answered_with_the_list() {
        for arguments in [&[][..], &["nothing"], &["--seed"]] {
            let line = read(arguments).expect_err("there is none");
            assert!(SOAKS.iter().all(|soak| line.contains(soak.name)), "{line}");
        }
    }
}
