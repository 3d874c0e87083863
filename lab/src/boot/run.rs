//! Starting the emulator, passing its console on as it comes, and ending it when its time is up.
//!
//! A thread reads what the guest prints and passes it on piece by piece; the thread that waits for pieces
//! also watches the clock. The pieces end when QEMU ends, or nearly so: its status is read then, within the
//! rest of the time. Another thread drains the standard error stream, which has QEMU's own messages and the
//! debug console, so that neither pipe can fill and block it.

use super::{Accel, Boot, Outcome, line, probe};
use crate::os::process;
use std::io::{self, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
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

/// Bytes that are passed on at once, at most.
const PIECE_BYTES: usize = 4096;
/// Interval at which a QEMU that has closed its console is polled for its end.
const POLL: Duration = Duration::from_millis(5);
/// How long a console on KVM may stay silent until it is asked whether KVM runs anything.
const SILENCE: Duration = Duration::from_secs(3);

/// Boots, hands each piece of the console to `console`, and returns when the machine has ended or was ended.
/// An error is one of the host: QEMU could not be started, or the console could not be passed on.
pub fn run(boot: &Boot, mut console: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<Run> {
    let mut command = Command::new(&boot.qemu);
    command.args(line::qemu_words(boot)).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    process::end_with_parent(&mut command);
    let start = Instant::now();
    let deadline = start + Duration::from_secs(boot.timeout_s);
    let mut machine = Machine(command.spawn()?);
    let pieces = pieces_of(machine.0.stdout.take());
    let stderr = end_of(machine.0.stderr.take());
    let (mut until, mut unusable) = (deadline, None);
    if boot.accel == Accel::Kvm {
        until = deadline.min(start + SILENCE);
    }
    let status = loop {
        match pieces.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(piece) => console(&piece)?,
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
    let stderr = stderr.join().unwrap_or_default();
    let outcome = match (status, unusable) {
        (Some(status), _) => Outcome::of(status, &stderr),
        (None, Some(reason)) => Outcome::Unusable { reason },
        (None, None) => Outcome::TimedOut,
    };
    Ok(Run { outcome, took: start.elapsed() })
}

/// Most bytes of a console that are kept: the first ones.
const MOST_CONSOLE: usize = 16 << 20;

/// Boots and keeps the console.
pub fn captured(boot: &Boot) -> io::Result<(Run, String)> {
    let mut console = Vec::new();
    let over = run(boot, |piece| {
        let room = MOST_CONSOLE - console.len();
        console.extend_from_slice(&piece[..piece.len().min(room)]);
        Ok(())
    })?;
    Ok((over, String::from_utf8_lossy(&console).into_owned()))
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

fn pieces_of(pipe: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    // A guest that prints faster than its console is passed on waits.
    let (sender, pieces) = mpsc::sync_channel(16);
    thread::spawn(move || {
        let Some(mut pipe) = pipe else { return };
        let mut buffer = [0; PIECE_BYTES];
        while let Ok(length @ 1..) = pipe.read(&mut buffer) {
            if sender.send(buffer[..length].to_vec()).is_err() {
                return;
            }
        }
    });
    pieces
}

/// Reads a pipe to its end and keeps the last bytes of it.
fn end_of(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let (mut kept, mut buffer) = (Vec::new(), [0; PIECE_BYTES]);
        let Some(mut pipe) = pipe else { return String::new() };
        while let Ok(length @ 1..) = pipe.read(&mut buffer) {
            kept.extend_from_slice(&buffer[..length]);
            kept.drain(..kept.len().saturating_sub(PIECE_BYTES));
        }
        String::from_utf8_lossy(&kept).into_owned()
    })
}
