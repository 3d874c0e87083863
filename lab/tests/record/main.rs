//! Recording real programs: nothing lost, every account balanced, every map reached by the calls that were
//! recorded.

mod command;
mod corners;
mod live;
mod model;
mod replayed;
mod shipped;
mod tracefs;

use interleaf_lab::os::lacking;
use interleaf_lab::os::process::ChildOutput;
use interleaf_lab::trace::record::{Options, Refusal, privilege, record};
use interleaf_lab::trace::{Event, Extent, Footer, Header, TraceReader};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

/// A recording, read back.
pub struct Recorded {
    /// Its header.
    pub header: Header,
    /// Its events.
    pub events: Vec<Event>,
    /// Its footer.
    pub footer: Footer,
}

/// Whether `test` may record; if not, it is noted.
pub fn may_record(test: &str) -> bool {
    let missing = privilege::missing();
    if !missing.is_empty() {
        lacking::note(test, &missing.join(" and "));
    }
    missing.is_empty()
}

/// Records `command` with rings of `ring_bytes`.
pub fn try_recording(command: &[&str], extent: Extent, ring_bytes: usize) -> Result<Recorded, Refusal> {
    let command = command.iter().map(OsString::from).collect();
    let mut bytes = Vec::new();
    record(
        &Options { command, extent, ring_bytes, output: ChildOutput::Inherited },
        &mut bytes,
        Box::new(|_| {}),
    )?;
    let (header, events, footer) =
        TraceReader::new(&bytes[..]).and_then(TraceReader::read_all).expect("a sound trace");
    Ok(Recorded { header, events, footer })
}

/// Records `command` whole.
pub fn recording(command: &[&str]) -> Recorded {
    try_recording(command, Extent::Whole, 16 << 20).unwrap_or_else(|refusal| panic!("{command:?}: {refusal}"))
}

/// Compiles a C program of this repository, once for each test that asks.
pub fn compiled(test: &str, source: &str) -> String {
    let program = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(test);
    let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(source);
    let cc = Command::new("cc").args(["-O1", "-pthread", "-w", "-o"]).arg(&program).arg(&source).status();
    assert!(cc.expect("cc, which links Rust, compiles C").success());
    program.to_str().expect("a path of letters").to_string()
}
