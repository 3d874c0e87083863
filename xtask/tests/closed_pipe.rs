//! A chore whose reader has gone, as that of `cargo xtask mutate --list | head -1` has, ends quietly.

use std::io::Read;
use std::process::{Command, Stdio};

/// What a chore with these arguments says on stderr, and whether it succeeds, when nothing reads its stdout.
fn unread(arguments: &[&str]) -> (String, bool) {
    let mut chore = Command::new(env!("CARGO_BIN_EXE_xtask"));
    chore.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = chore.spawn().expect("it is built");
    drop(child.stdout.take());
    let mut said = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
    (said, child.wait().expect("a child").success())
}

#[test]
fn a_chore_whose_reader_has_gone_ends_quietly() {
    // The list is printed at once; help is printed by `main`; the widths are printed after a while.
    for arguments in [&["mutate", "--list"][..], &["help"], &["width"]] {
        assert_eq!(unread(arguments), (String::new(), true), "{arguments:?}");
    }
}
