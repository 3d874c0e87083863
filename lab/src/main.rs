//! The `interleaf` command; `interleaf_lab::command` reads its line and does its work.

use std::process::ExitCode;

fn main() -> ExitCode {
    interleaf_lab::command::main()
}
