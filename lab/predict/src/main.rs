//! The command `interleaf-predict`, which `interleaf predict` builds and runs.

use std::process::ExitCode;

fn main() -> ExitCode {
    interleaf_predict::command::main()
}
