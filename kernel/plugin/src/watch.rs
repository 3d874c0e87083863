//! Windows and the lines that are touched in them.

use crate::mark::Mark;
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Most CPUs that are watched.
pub const CPUS: usize = 8;
/// Bytes of a line.
const LINE_BYTES: u64 = 64;
/// Where the kernel's half of the addresses begins.
const KERNEL: u64 = 1 << 63;

/// Number of a CPU's windows in which a line was touched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Touches {
    /// Windows in which it was written.
    pub written: u64,
    /// Windows in which it was read and not written.
    pub only_read: u64,
}

/// One CPU.
#[derive(Debug, Default)]
struct Cpu {
    /// Whether the last instruction of the program was a system call.
    called: bool,
    /// Whether the CPU is in the kernel, and if so, whether the stay is a window.
    stay: Option<bool>,
    windows: u64,
    /// Lines of this window by physical address: whether written, and a virtual address.
    now: HashMap<u64, (bool, u64)>,
    lines: HashMap<u64, (Touches, u64)>,
}

/// All CPUs.
#[derive(Debug, Default)]
pub struct Watch {
    /// Whether windows count. SeqCst, for simplicity.
    counting: AtomicBool,
    cpus: [Mutex<Cpu>; CPUS],
}

/// Whether an instruction or datum belongs to the kernel.
pub fn is_kernel(address: u64) -> bool {
    address >= KERNEL
}

impl Watch {
    fn cpu(&self, index: usize) -> std::sync::MutexGuard<'_, Cpu> {
        self.cpus[index % CPUS].lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// CPU `index` is about to execute an instruction of the program.
    pub fn program(&self, index: usize, mark: Mark) {
        match mark {
            Mark::Begin => self.counting.store(true, Ordering::SeqCst),
            Mark::End => self.counting.store(false, Ordering::SeqCst),
            Mark::Call | Mark::None => {}
        }
        let mut cpu = self.cpu(index);
        cpu.called = mark == Mark::Call;
        if cpu.stay.take() == Some(true) {
            cpu.close();
        }
    }

    /// CPU `index` is about to execute an instruction of the kernel.
    pub fn kernel(&self, index: usize) {
        let mut cpu = self.cpu(index);
        if cpu.stay.is_none() {
            cpu.stay = Some(!cpu.called && self.counting.load(Ordering::SeqCst));
        }
    }

    /// The kernel on CPU `index` touches memory.
    pub fn touch(&self, index: usize, physical: u64, at: u64, write: bool) {
        let mut cpu = self.cpu(index);
        if cpu.stay == Some(true) {
            let line = cpu.now.entry(physical / LINE_BYTES).or_insert((false, at & !(LINE_BYTES - 1)));
            line.0 |= write;
        }
    }

    /// The table, as text: see the crate.
    pub fn table(&self) -> String {
        let cpus = [self.cpu(0), self.cpu(1)];
        let mut text = format!("windows {} {}\n", cpus[0].windows, cpus[1].windows);
        let mut lines: HashMap<u64, (u64, [Touches; 2])> = HashMap::new();
        for (index, cpu) in cpus.iter().enumerate() {
            for (line, (touches, at)) in &cpu.lines {
                lines.entry(*line).or_insert((*at, [Touches::default(); 2])).1[index] = *touches;
            }
        }
        let mut lines: Vec<_> = lines.into_iter().collect();
        lines.sort_by_key(|(line, _)| *line);
        for (line, (at, [a, b])) in lines {
            let physical = line * LINE_BYTES;
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "line {physical:#x} {at:#x} {} {} {} {}",
                a.written, a.only_read, b.written, b.only_read
            );
        }
        text
    }
}

impl Cpu {
    fn close(&mut self) {
        self.windows += 1;
        for (line, (written, at)) in self.now.drain() {
            let touches = &mut self.lines.entry(line).or_insert((Touches::default(), at)).0;
            if written {
                touches.written += 1;
            } else {
                touches.only_read += 1;
            }
        }
    }
}

#[cfg(test)]
#[path = "tests/watch.rs"]
mod tests;
