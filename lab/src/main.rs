//! The `interleaf` command; `interleaf_lab::cli` reads its line and does its work.

use std::process::ExitCode;

fn main() -> ExitCode {
    interleaf_lab::cli::main()
}
