//! Starting the emulator, passing its two consoles on as they come, and ending it when its time is up.
//!
//! ```text
//!   QEMU's stdout   the serial line: the program's bytes, as they are       ─┐
//!   QEMU's stderr   the debug console: the kernel's lines, and QEMU's own   ─┴► pieces ─► the caller
//! ```
//! A thread for each pipe reads it and passes it on, so that neither can fill and block the guest; the thread
//! that waits for pieces also watches the clock. They end when QEMU ends, or nearly so: its status is read
//! then, within the rest of the time. The kernel's lines come whole, without the one that has the exit code.

use super::{Accel, Boot, Outcome, line, outcome, probe};
use crate::os::process;
use std::io::{self, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

/// A boot that is over.
#[derive(Clone, Debug)]
pub struct Run {
    /// How it ended.
    pub outcome: Outcome,
    /// How long it took.
    pub took: Duration,
}

/// The source of a line of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Console {
    /// The program in ring 3.
    Program,
    /// The kernel, and QEMU.
    Kernel,
}

/// What was printed on each console.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Printed {
    /// By the program.
    pub program: String,
    /// By the kernel, and QEMU.
    pub kernel: String,
}

/// Bytes that are passed on at once, at most; of the kernel's lines a little more.
const PIECE_BYTES: usize = 4096;
/// Interval at which a QEMU that has closed its console is polled for its end.
const POLL: Duration = Duration::from_millis(5);
/// How long a console on KVM may stay silent until it is asked whether KVM runs anything.
const SILENCE: Duration = Duration::from_secs(3);

/// Boots, hands each piece of the consoles to `print`, and returns when the machine has ended or was ended.
/// An error is one of the host: QEMU could not be started, or a console could not be passed on.
pub fn run(boot: &Boot, mut print: impl FnMut(Console, &[u8]) -> io::Result<()>) -> io::Result<Run> {
    let mut command = Command::new(&boot.qemu);
    command.args(line::qemu_words(boot)).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    process::end_with_parent(&mut command);
    let start = Instant::now();
    let deadline = start + Duration::from_secs(boot.timeout_s);
    let mut machine = Machine(command.spawn()?);
    // A guest that prints faster than its consoles are passed on waits.
    let (sender, pieces) = mpsc::sync_channel(16);
    let kernel = pass_lines_on(machine.0.stderr.take(), sender.clone());
    pass_bytes_on(machine.0.stdout.take(), sender);
    let (mut until, mut unusable) = (deadline, None);
    if boot.accel == Accel::Kvm {
        until = deadline.min(start + SILENCE);
    }
    let status = loop {
        match pieces.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok((console, piece)) => print(console, &piece)?,
            Err(RecvTimeoutError::Timeout) if until < deadline => {
                unusable = probe::kvm_runs(&boot.qemu).err();
                if unusable.is_some() {
                    break None;
                }
            }
            Err(RecvTimeoutError::Timeout) => break None,
            Err(RecvTimeoutError::Disconnected) => break machine.status_before(deadline)?,
        }
        until = deadline;
    };
    // Ends a machine that has not: then the pipes close, and the threads with them.
    drop(machine);
    drop(pieces);
    let stderr = kernel.join().unwrap_or_default();
    let outcome = match (status, unusable) {
        (Some(status), _) => Outcome::of(status, &stderr),
        (None, Some(reason)) => Outcome::Unusable { reason },
        (None, None) => Outcome::TimedOut,
    };
    Ok(Run { outcome, took: start.elapsed() })
}

/// Most bytes of a console that are kept: the first ones.
const MOST_CONSOLE: usize = 16 << 20;

/// Boots and keeps the consoles.
pub fn captured(boot: &Boot) -> io::Result<(Run, Printed)> {
    let (mut program, mut kernel) = (Vec::new(), Vec::new());
    let over = run(boot, |console, piece| {
        let kept = if console == Console::Program { &mut program } else { &mut kernel };
        let room = MOST_CONSOLE - kept.len();
        kept.extend_from_slice(&piece[..piece.len().min(room)]);
        Ok(())
    })?;
    let [program, kernel] = [program, kernel].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Ok((over, Printed { program, kernel }))
}

/// A running QEMU, ended when it is dropped.
struct Machine(Child);

impl Machine {
    fn status_before(&mut self, deadline: Instant) -> io::Result<Option<ExitStatus>> {
        loop {
            let status = self.0.try_wait()?;
            if status.is_some() || Instant::now() >= deadline {
                return Ok(status);
            }
            thread::sleep(POLL);
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Both fail only for a process that has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A piece of a console.
type Piece = (Console, Vec<u8>);

/// Passes the program's bytes on until the pipe ends, or the receiver is gone.
fn pass_bytes_on(pipe: Option<impl Read + Send + 'static>, to: SyncSender<Piece>) {
    thread::spawn(move || {
        let Some(mut pipe) = pipe else { return };
        let mut buffer = [0; PIECE_BYTES];
        while let Ok(length @ 1..) = pipe.read(&mut buffer) {
            if to.send((Console::Program, buffer[..length].to_vec())).is_err() {
                return;
            }
        }
    });
}

/// Passes the kernel's lines on until the pipe ends; returns the last bytes of them.
fn pass_lines_on(
    pipe: Option<impl Read + Send + 'static>,
    to: SyncSender<Piece>,
) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let (mut kept, mut begun, mut buffer) = (Vec::new(), Vec::new(), [0; PIECE_BYTES]);
        let Some(mut pipe) = pipe else { return String::new() };
        while let Ok(length @ 1..) = pipe.read(&mut buffer) {
            kept.extend_from_slice(&buffer[..length]);
            kept.drain(..kept.len().saturating_sub(PIECE_BYTES));
            begun.extend_from_slice(&buffer[..length]);
            // A receiver that is gone wants no more; the pipe is drained all the same.
            let _ = to.send((Console::Kernel, whole_lines(&mut begun)));
        }
        let _ = to.send((Console::Kernel, begun));
        String::from_utf8_lossy(&kept).into_owned()
    })
}

/// Takes the lines that have ended, without those that are for the lab; of one that is longer than a piece
/// what there is.
fn whole_lines(begun: &mut Vec<u8>) -> Vec<u8> {
    let end = match begun.iter().rposition(|&byte| byte == b'\n') {
        Some(last) => last + 1,
        None if begun.len() > PIECE_BYTES => begun.len(),
        None => 0,
    };
    let lines: Vec<u8> = begun.drain(..end).collect();
    lines
        .split_inclusive(|&byte| byte == b'\n')
        .filter(|line| !outcome::is_exit_code(line))
        .flatten()
        .copied()
        .collect()
}

#[cfg(test)]
#[path = "tests/run.rs"]
mod tests;
