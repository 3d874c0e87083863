//! A recording where tracefs is not mounted.

use crate::may_record;
use interleaf_lab::os::lacking;
use std::process::{Command, Output};

/// Records `true` in a mount namespace of its own, after `before` has run there as root of it. `None` where
/// this user may have no such namespace.
fn recorded_after(before: &str) -> Option<Output> {
    let file = format!("{}/tracefs.trace", env!("CARGO_TARGET_TMPDIR"));
    let interleaf = env!("CARGO_BIN_EXE_interleaf");
    // 99: the namespace cannot be prepared.
    let script = format!("{{ {before}; }} || exit 99; exec '{interleaf}' record -o '{file}' -- true");
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", &script]);
    let output = command.output().ok()?;
    let lacks = output.status.code() == Some(99) || output.stderr.starts_with(b"unshare:");
    (!lacks).then_some(output)
}

#[test]
fn a_recording_mounts_tracefs_where_it_is_not_mounted_and_says_so() {
    const NAME: &str = "a_recording_mounts_tracefs_where_it_is_not_mounted_and_says_so";
    const NOTICE: &str = "tracefs was mounted at /sys/kernel/tracing for this, and stays mounted";
    if !may_record(NAME) {
        return;
    }
    let unmount =
        "while [ -e /sys/kernel/tracing/events ]; do umount -l /sys/kernel/tracing || exit 99; done";
    let Some(unmounted) = recorded_after(unmount) else {
        return lacking::note(NAME, "a mount namespace");
    };
    let said =
        |output: &Output| String::from_utf8_lossy(&[&*output.stdout, &*output.stderr].concat()).into_owned();
    assert!(unmounted.status.success() && said(&unmounted).contains(NOTICE), "{}", said(&unmounted));
    let mounted =
        recorded_after("[ -e /sys/kernel/tracing/events ] || mount -t tracefs tracefs /sys/kernel/tracing");
    let mounted = mounted.expect("there was a namespace before");
    assert!(mounted.status.success() && !said(&mounted).contains(NOTICE), "{}", said(&mounted));
}
