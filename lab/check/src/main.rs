//! The command `interleaf-check`, which `interleaf check` builds and runs.

use std::process::ExitCode;

fn main() -> ExitCode {
    interleaf_check::command::main()
}
