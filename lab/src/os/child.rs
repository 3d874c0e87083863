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
//! and knows only the shared area and two pipes. What it is asked to do comes from a closed list ([`Step`])
//! and changes only ranges in which it has nothing of its own: it stays a process of this code, which makes
//! no other call.
//!
//! | file | holds |
//! |---|---|
//! | this one | the process, the area, the pipes |
//! | `step` | the steps, and which are admitted |
//! | `prepare` | arranging the address space |

mod prepare;
mod step;

pub use step::Step;

use super::touch;
use std::io::{Error, ErrorKind, Result};
use std::mem::size_of;
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

/// The child, seen from its parent.
#[derive(Debug)]
pub struct Child {
    pid: i32,
    /// Shared area; at the same address in both processes.
    area: &'static [AtomicU64],
    /// The parent's ends: requests are written, completions read.
    request: i32,
    done: i32,
    /// What steps may change, once the address space is arranged.
    bounds: Option<Bounds>,
}

impl Child {
    /// Forks a child that waits for steps.
    ///
    /// # Errors
    /// What Linux says when it has no memory, pipes or processes left.
    pub fn start() -> Result<Self> {
        let area = shared_area()?;
        let (request, done) = (pipe()?, pipe()?);
        // SAFETY: the child calls only `serve`, which allocates nothing, takes no lock and never returns.
        match unsafe { libc::fork() } {
            -1 => Err(Error::last_os_error()),
            0 => serve(area, request[0], done[1]),
            pid => {
                close(request[0]);
                close(done[1]);
                Ok(Self { pid, area, request: request[1], done: done[0], bounds: None })
            }
        }
    }

    /// The child's process number.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Where the scratch memory lies, in both processes.
    #[must_use]
    pub fn scratch_addr(&self) -> u64 {
        self.scratch().as_ptr() as u64
    }

    /// Copies words into the scratch memory, from its word `at` on.
    pub fn write_scratch(&self, at: usize, words: &[u64]) {
        for (place, &word) in self.scratch()[at..at + words.len()].iter().zip(words) {
            place.store(word, Relaxed);
        }
    }

    /// Copies `len` bytes out of the scratch memory, from byte `at` on.
    #[must_use]
    pub fn read_scratch(&self, at: usize, len: usize) -> Vec<u8> {
        let byte = |index: usize| (self.scratch()[index / 8].load(Relaxed) >> (index % 8 * 8)) as u8;
        (at..at + len).map(byte).collect()
    }

    /// Has the child carry out `steps`, at most [`MAX_STEPS`]; one result each: what the system call
    /// returned, negative for an error, or the result of [`touch`].
    ///
    /// # Errors
    /// `BrokenPipe` if the child died of them.
    ///
    /// # Panics
    /// Where the child is not [prepared](Self::prepare), or a step would change anything outside of the
    /// windows. None is carried out then.
    pub fn run(&mut self, steps: &[Step]) -> Result<Vec<u64>> {
        let bounds = self.bounds.as_ref().expect("the child's address space is arranged");
        for step in steps {
            assert!(bounds.admit(step), "{step:?} leaves the windows");
        }
        let scratch = self.scratch_addr();
        let calls: Vec<_> = steps.iter().map(|step| step.encode(scratch)).collect();
        self.carry_out(&calls)
    }

    /// Has the child carry out calls, each a number and arguments.
    fn carry_out(&mut self, calls: &[[u64; STEP_WORDS]]) -> Result<Vec<u64>> {
        assert!(calls.len() <= MAX_STEPS);
        for (place, call) in self.area.chunks(STEP_WORDS).zip(calls) {
            for (word, &value) in place.iter().zip(call) {
                word.store(value, Relaxed);
            }
        }
        // The pipes order the two sides: the kernel's locks within write and read publish the area.
        if !write_word(self.request, calls.len() as u64) || read_word(self.done).is_none() {
            return Err(Error::new(ErrorKind::BrokenPipe, "the child process died"));
        }
        let results = self.area.chunks(STEP_WORDS).take(calls.len());
        Ok(results.map(|place| place[0].load(Relaxed)).collect())
    }

    fn scratch(&self) -> &[AtomicU64] {
        &self.area[MAX_STEPS * STEP_WORDS..]
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        close(self.request);
        close(self.done);
        // SAFETY: the child is ours and not yet waited for, so its number cannot have been reused; the area
        // was mapped with this address and size and no reference to it outlives `self`.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            libc::waitpid(self.pid, std::ptr::null_mut(), 0);
            libc::munmap(self.area.as_ptr() as *mut libc::c_void, AREA_BYTES + PAGE_BYTES);
        }
    }
}

/// The child's main loop: waits for steps, executes them, reports that they are done.
fn serve(area: &[AtomicU64], request: i32, done: i32) -> ! {
    // SAFETY: asks to be killed when the parent dies; changes no memory.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    touch::catch_segv();
    while let Some(count) = read_word(request) {
        for place in area.chunks(STEP_WORDS).take(count as usize) {
            place[0].store(carry_out(place), Relaxed);
        }
        if !write_word(done, 1) {
            break;
        }
    }
    // SAFETY: ends the process without running anything of the parent's.
    unsafe { libc::_exit(0) }
}

fn carry_out(place: &[AtomicU64]) -> u64 {
    let [number, a, b, c, d, e, f] = [0, 1, 2, 3, 4, 5, 6].map(|word| place[word].load(Relaxed));
    // SAFETY: this process has one thread and SIGSEGV is caught. The area holds calls of `prepare` alone, or
    // steps that `run` has admitted: they change ranges where nothing of this process lies, and the scratch
    // memory, which is atomics.
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
