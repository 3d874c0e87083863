//! Whether KVM runs a guest: the smallest one, with a limit of time.
//!
//! That /dev/kvm can be opened, and that QEMU creates a machine on it, does not mean that the machine runs.
//! Inside of another virtual machine KVM may emulate each instruction, at a thousandth of the speed: a
//! kernel then prints nothing for minutes. So the guest counts to twenty million, which takes a processor
//! some hundredths of a second, and ends.

use crate::os::process;
use std::env;
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long the guest may take; QEMU's own start is most of it.
pub const LIMIT: Duration = Duration::from_secs(5);
/// Interval at which QEMU is polled for its end.
const POLL: Duration = Duration::from_millis(5);

/// Rounds of the guest's loop.
const ROUNDS: u32 = 20_000_000;
/// What the guest writes to isa-debug-exit, and the status that QEMU ends with then.
const VALUE: u8 = 0x2a;
const STATUS: i32 = (VALUE as i32) << 1 | 1;

/// Runs the guest under KVM.
///
/// # Errors
/// One line that says why KVM does not run it.
pub fn kvm_runs(qemu: &Path) -> Result<(), String> {
    let firmware = Firmware::written().map_err(|error| format!("a file for the guest: {error}"))?;
    let mut command = Command::new(qemu);
    command.args(["-accel", "kvm", "-M", "q35", "-cpu", "host", "-m", "64M", "-display", "none"]);
    command.args(["-nodefaults", "-no-user-config", "-no-reboot"]);
    command.args(["-device", "isa-debug-exit,iobase=0xf4,iosize=4", "-bios"]).arg(&firmware.0);
    runs(command, LIMIT)
}

/// Runs a machine whose guest ends it with [`VALUE`].
fn runs(mut command: Command, limit: Duration) -> Result<(), String> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    process::end_with_parent(&mut command);
    let deadline = Instant::now() + limit;
    let mut child = command.spawn().map_err(|error| format!("QEMU: {error}"))?;
    let status = loop {
        match child.try_wait() {
            Ok(None) if Instant::now() < deadline => thread::sleep(POLL),
            Ok(status) => break Ok(status),
            Err(error) => break Err(format!("QEMU: {error}")),
        }
    };
    // Both fail only for a process that has ended already.
    let _ = child.kill();
    let _ = child.wait();
    let Some(status) = status? else {
        let seconds = limit.as_secs_f64();
        return Err(format!("a guest does not come to count to twenty million in {seconds} s"));
    };
    if status.code() == Some(STATUS) {
        return Ok(());
    }
    let mut words = String::new();
    // A pipe holds more than the lines of a QEMU that refuses; what cannot be read is not said.
    let _ = child.stderr.take().map(|pipe| pipe.take(4096).read_to_string(&mut words));
    match words.lines().map(str::trim).find(|line| !line.is_empty()) {
        Some(line) => Err(format!("QEMU cannot use it: {line}")),
        None => Err(format!("QEMU ended with {status}, not as the guest asked it to")),
    }
}

/// The guest as a file, removed on drop.
struct Firmware(PathBuf);

impl Firmware {
    fn written() -> io::Result<Firmware> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("interleaf-guest-{}-{count}", std::process::id()));
        let mut file = OpenOptions::new().write(true).create_new(true).open(&path)?;
        let firmware = Firmware(path);
        file.write_all(&image(ROUNDS))?;
        Ok(firmware)
    }
}

impl Drop for Firmware {
    fn drop(&mut self) {
        // A file that cannot be removed is left to the cleaner of the folder of temporary files.
        let _ = fs::remove_file(&self.0);
    }
}

/// Size of the image: it ends where the addresses below 4 GiB do.
const BYTES: usize = 1 << 16;
/// Places in it, which are also offsets in the first code segment.
const RESET: usize = 0xfff0;
const REAL: usize = 0xff00;
const PROTECTED: usize = 0xff40;
const TABLE: usize = 0xff80;
const TABLE_POINTER: usize = 0xff98;

/// Firmware that enters protected mode, counts down from `rounds` and ends the machine.
fn image(rounds: u32) -> Vec<u8> {
    let linear = |place: usize| (u32::MAX - (BYTES - 1 - place) as u32).to_le_bytes();
    let pointer = (TABLE_POINTER as u16).to_le_bytes();
    let jump = (REAL as i16).wrapping_sub(RESET as i16 + 3).to_le_bytes();
    let parts: [(usize, Vec<u8>); 5] = [
        // jmp REAL
        (RESET, [&[0xe9][..], &jump].concat()),
        // cli; lgdt cs:[TABLE_POINTER]
        // mov eax, cr0; or al, 1; mov cr0, eax; jmp 8:PROTECTED
        (
            REAL,
            [
                &[0xfa, 0x2e, 0x66, 0x0f, 0x01, 0x16][..],
                &pointer,
                &[0x0f, 0x20, 0xc0, 0x0c, 0x01, 0x0f, 0x22, 0xc0, 0x66, 0xea],
                &linear(PROTECTED),
                &[8, 0],
            ]
            .concat(),
        ),
        // mov ecx, rounds; loop to itself
        // mov al, VALUE; out 0xf4, al; hlt, for ever
        (
            PROTECTED,
            [&[0xb9][..], &rounds.to_le_bytes(), &[0xe2, 0xfe, 0xb0, VALUE, 0xe6, 0xf4, 0xf4, 0xeb, 0xfd]]
                .concat(),
        ),
        // No segment, then code: 4 GiB from 0, 32 bits.
        (TABLE, [&[0; 8][..], &[0xff, 0xff, 0, 0, 0, 0x9b, 0xcf, 0]].concat()),
        (TABLE_POINTER, [&[15, 0][..], &linear(TABLE)].concat()),
    ];
    let mut image = vec![0; BYTES];
    for (place, bytes) in parts {
        image[place..place + bytes.len()].copy_from_slice(&bytes);
    }
    image
}

#[cfg(test)]
#[path = "tests/probe.rs"]
mod tests;
