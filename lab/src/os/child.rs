//! A child process that carries out steps (raw system calls and touches of memory) on its own address space.
//!
//! ```text
//!  parent                    shared area               child
//!  write steps        ->     steps                     read(pipe) sleeps
//!  write(pipe)                                    ->   for each step: do it, note the result
//!  read(pipe) sleeps         results                <- write(pipe)
//! ```
//!
//! The child is a fork that never returns to Rust code of the parent: it loops in `serve`, allocates nothing,
//! and knows only the shared areas and their pipes. What it is asked to do is of a closed list ([`Step`])
//! and changes only ranges in which it has nothing of its own: it stays a process of this code, which makes
//! no other call.
//!
//! | file | holds |
//! |---|---|
//! | this one | the process, the area, the pipes |
//! | `step` | the steps, and which are admitted |
//! | `prepare` | arranging the address space |
//! | `file` | the one file that they may map |
//! | `memory` | their memory, loaded from and stored to by the parent |
//! | `processes` | processes that the child forks, each with an area and pipes of its own |

mod file;
mod memory;
mod prepare;
mod processes;
mod step;

pub use file::{FILE, FILE_BYTES};
pub use prepare::HugePages;
pub use processes::MOST_PROCESSES;
pub use step::Step;

use super::touch;
use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::mem::size_of;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use step::{Bounds, READ, WRITE};

/// Most steps that one request can hold.
pub const MAX_STEPS: usize = 4096;
/// Bytes of scratch memory that both sides see.
pub const SCRATCH_BYTES: usize = 1 << 20;
/// 64-bit words of a step.
const STEP_WORDS: usize = 7;
/// The shared area in words: steps (each becomes its result), then scratch.
const AREA_WORDS: usize = MAX_STEPS * STEP_WORDS + SCRATCH_BYTES / 8;
const AREA_BYTES: usize = AREA_WORDS * size_of::<AtomicU64>();
const PAGE_BYTES: usize = 4096;

/// The child, seen from its parent, and the processes that it forked.
#[derive(Debug)]
pub struct Child {
    processes: [Option<Process>; MOST_PROCESSES],
    channels: [Channel; MOST_PROCESSES],
    /// What steps may change, once the address space is arranged.
    bounds: Option<Bounds>,
    /// The file that steps may map, as the parent has it.
    file: File,
}

/// A process that waits for steps.
#[derive(Clone, Copy, Debug)]
struct Process {
    pid: i32,
    /// Which of the child's processes forked it; the child itself has none.
    parent: Option<usize>,
}

/// How a process is asked. It exists before the process does.
#[derive(Clone, Copy, Debug)]
struct Channel {
    /// Shared area; at the same address in all processes.
    area: &'static [AtomicU64],
    /// Requests are written by one side, completions by the other: the ends that are this side's.
    request: i32,
    done: i32,
}

impl Child {
    /// Forks a child that waits for steps.
    ///
    /// # Errors
    /// What Linux says when it has no memory, pipes or processes left.
    pub fn start() -> Result<Self> {
        let mut pairs = Vec::new();
        for _ in 0..MOST_PROCESSES {
            pairs.push(Channel::pair()?);
        }
        let file = file::open()?;
        let [ours, theirs] = [0, 1].map(|side| std::array::from_fn(|nr| pairs[nr][side]));
        // SAFETY: the child calls only `start_serving`, which allocates nothing, takes no lock and never
        // returns.
        match unsafe { libc::fork() } {
            -1 => Err(Error::last_os_error()),
            0 => start_serving(&theirs, &ours, file.as_raw_fd()),
            pid => {
                theirs.iter().for_each(Channel::close);
                let mut processes = [None; MOST_PROCESSES];
                processes[0] = Some(Process { pid, parent: None });
                Ok(Self { processes, channels: ours, bounds: None, file })
            }
        }
    }

    /// The child's process number.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid_of(0)
    }

    /// Where the scratch memory of a process lies, in all of them.
    #[must_use]
    pub fn scratch_addr(&self, process: usize) -> u64 {
        self.scratch(process).as_ptr() as u64
    }

    /// Copies words into the scratch memory of a process, from its word `at` on.
    pub fn write_scratch(&self, process: usize, at: usize, words: &[u64]) {
        for (place, &word) in self.scratch(process)[at..at + words.len()].iter().zip(words) {
            place.store(word, Relaxed);
        }
    }

    /// Copies `len` bytes out of the scratch memory of a process, from byte `at` on.
    #[must_use]
    pub fn read_scratch(&self, process: usize, at: usize, len: usize) -> Vec<u8> {
        let scratch = self.scratch(process);
        let byte = |index: usize| (scratch[index / 8].load(Relaxed) >> (index % 8 * 8)) as u8;
        (at..at + len).map(byte).collect()
    }

    /// Has a process, 0 for the child itself, carry out `steps`, at most [`MAX_STEPS`]; one result each: what
    /// the system call returned, negative for an error, or the result of [`touch`].
    ///
    /// # Errors
    /// `BrokenPipe` if the process died of them.
    ///
    /// # Panics
    /// Where the child is not [prepared](Self::prepare), or a step would change anything outside of the
    /// windows. None is carried out then.
    pub fn run(&mut self, process: usize, steps: &[Step]) -> Result<Vec<u64>> {
        let bounds = self.bounds.as_ref().expect("the child's address space is arranged");
        for step in steps {
            assert!(bounds.admit(step), "{step:?} leaves the windows");
        }
        let scratch = self.scratch_addr(process);
        let calls: Vec<_> = steps.iter().map(|step| step.encode(scratch)).collect();
        self.carry_out(process, &calls)
    }

    /// Has a process carry out calls, each a number and arguments.
    fn carry_out(&mut self, process: usize, calls: &[[u64; STEP_WORDS]]) -> Result<Vec<u64>> {
        assert!(calls.len() <= MAX_STEPS);
        let Channel { area, done, .. } = self.channels[process];
        // The pipes order the two sides: the kernel's locks within write and read publish the area.
        if !self.ask(process, calls) || !answers(done) || read_word(done).is_none() {
            return Err(Error::new(ErrorKind::BrokenPipe, "the child process died"));
        }
        let results = area.chunks(STEP_WORDS).take(calls.len());
        Ok(results.map(|place| place[0].load(Relaxed)).collect())
    }

    /// Asks a process for calls, and does not wait. Returns whether it could be asked.
    fn ask(&mut self, process: usize, calls: &[[u64; STEP_WORDS]]) -> bool {
        let Channel { area, request, .. } = self.channels[process];
        for (place, call) in area.chunks(STEP_WORDS).zip(calls) {
            for (word, &value) in place.iter().zip(call) {
                word.store(value, Relaxed);
            }
        }
        write_word(request, calls.len() as u64)
    }

    fn scratch(&self, process: usize) -> &[AtomicU64] {
        &self.channels[process].area[MAX_STEPS * STEP_WORDS..]
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.channels.iter().for_each(Channel::close);
        // A process that the child forked is waited for by others only after it has left the list.
        for Process { pid, .. } in self.processes.iter().rev().flatten() {
            // SAFETY: the process is ours and not yet waited for, so its number cannot have been reused.
            unsafe { libc::kill(*pid, libc::SIGKILL) };
        }
        // SAFETY: as above; the areas were mapped with these addresses and this size, and no reference to
        // them outlives `self`.
        unsafe {
            libc::waitpid(self.pid(), std::ptr::null_mut(), 0);
            for channel in self.channels {
                libc::munmap(channel.area.as_ptr() as *mut libc::c_void, AREA_BYTES + PAGE_BYTES);
            }
        }
    }
}

impl Channel {
    /// The two sides of a new channel: that of the asking process, and that of the child.
    fn pair() -> Result<[Self; 2]> {
        let area = shared_area()?;
        let (request, done) = (pipe()?, pipe()?);
        let asking = Self { area, request: request[1], done: done[0] };
        Ok([asking, Self { area, request: request[0], done: done[1] }])
    }

    /// Closes this side.
    fn close(&self) {
        close(self.request);
        close(self.done);
    }
}

/// The child's part: prepares to be asked, and serves the first channel.
fn start_serving(channels: &[Channel; MOST_PROCESSES], others: &[Channel; MOST_PROCESSES], file: i32) -> ! {
    others.iter().for_each(Channel::close);
    // SAFETY: gives the file its number, asks to be killed when the parent dies, and to be the parent of
    // processes whose own has ended; changes no memory.
    unsafe {
        libc::dup2(file, FILE as i32);
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1);
    }
    touch::catch_segv();
    serve(channels, 0)
}

/// A process's main loop: waits for steps, executes them, reports that they are done.
fn serve(channels: &[Channel; MOST_PROCESSES], own: usize) -> ! {
    let Channel { area, request, done } = channels[own];
    while let Some(count) = read_word(request) {
        for place in area.chunks(STEP_WORDS).take(count as usize) {
            let result = match place[0].load(Relaxed) {
                processes::FORK => processes::fork(channels, place[1].load(Relaxed) as usize),
                processes::EXIT => processes::exit(),
                _ => carry_out(place),
            };
            place[0].store(result, Relaxed);
        }
        if !write_word(done, 1) {
            break;
        }
    }
    processes::exit()
}

fn carry_out(place: &[AtomicU64]) -> u64 {
    let [number, a, b, c, d, e, f] = [0, 1, 2, 3, 4, 5, 6].map(|word| place[word].load(Relaxed));
    // SAFETY: this process has one thread and SIGSEGV is caught. The area holds calls of `prepare` or
    // `processes`, or steps that `run` has admitted: they change ranges where nothing of this process lies,
    // and the scratch memory, which is atomics.
    unsafe {
        match number {
            READ => touch::read_byte(a),
            WRITE => touch::write_byte(a, b as u8),
            _ => raw_syscall(number, [a, b, c, d, e, f]),
        }
    }
}

/// The system call itself: what the kernel returns, with no errno in between.
///
/// # Safety
/// Whatever the call does to this process's memory and files must be wanted.
unsafe fn raw_syscall(number: u64, [a, b, c, d, e, f]: [u64; 6]) -> u64 {
    let result: u64;
    // SAFETY: the instruction clobbers RCX and R11 only; memory effects are the caller's.
    unsafe {
        std::arch::asm!(
            "syscall",
            inout("rax") number => result, in("rdi") a, in("rsi") b, in("rdx") c,
            in("r10") d, in("r8") e, in("r9") f,
            out("rcx") _, out("r11") _, options(nostack),
        );
    }
    result
}

/// Maps the area that both processes see, and a page after it that stays inaccessible: what Linux writes to
/// the scratch memory ends there.
fn shared_area() -> Result<&'static [AtomicU64]> {
    let (prot, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: a fresh mapping where the kernel likes; it is zeroed, and zero is a valid AtomicU64. Both
    // processes use it through atomics only. It is unmapped when the `Child`, the only holder of the slice,
    // is dropped.
    unsafe {
        let start = libc::mmap(std::ptr::null_mut(), AREA_BYTES + PAGE_BYTES, prot, flags, -1, 0);
        if start == libc::MAP_FAILED {
            return Err(Error::last_os_error());
        }
        if libc::mprotect(start.byte_add(AREA_BYTES), PAGE_BYTES, libc::PROT_NONE) != 0 {
            return Err(Error::last_os_error());
        }
        Ok(std::slice::from_raw_parts(start.cast(), AREA_WORDS))
    }
}

/// A pipe: the end to read from and the end to write to.
fn pipe() -> Result<[i32; 2]> {
    let mut ends = [0; 2];
    // SAFETY: `ends` is room for the two descriptors.
    match unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } {
        0 => Ok(ends),
        _ => Err(Error::last_os_error()),
    }
}

/// Reads one word; none at the end of the pipe.
fn read_word(from: i32) -> Option<u64> {
    let mut word = 0u64;
    // SAFETY: `word` is eight bytes of room.
    let read = unsafe { libc::read(from, (&raw mut word).cast(), 8) };
    (read == 8).then_some(word)
}

/// Whether there is something to read within a minute. The ends of a forked process's pipes stay open in the
/// child, so that its death alone does not end a read.
fn answers(from: i32) -> bool {
    let mut watched = libc::pollfd { fd: from, events: libc::POLLIN, revents: 0 };
    // SAFETY: `watched` is one descriptor's worth of room.
    unsafe { libc::poll(&raw mut watched, 1, 60_000) == 1 }
}

/// Writes one word; false if the reader is gone. (Rust programs ignore SIGPIPE.)
fn write_word(to: i32, word: u64) -> bool {
    // SAFETY: `word` is eight readable bytes.
    unsafe { libc::write(to, (&raw const word).cast(), 8) == 8 }
}

fn close(descriptor: i32) {
    // SAFETY: closes a descriptor that this module opened and uses no more.
    unsafe { libc::close(descriptor) };
}

const _: () = assert!(AREA_BYTES.is_multiple_of(PAGE_BYTES));
