//! Signals as Linux's programs see them: the frame that a handler finds on its stack, where it is put, and
//! what calls do to masks and alternate stacks.
//!
//! ```text
//!   frame ─►  restorer            where the handler returns to: it calls rt_sigreturn
//!             ucontext            registers in Linux's order, the address of the state, the mask
//!             siginfo             signal, code, address
//!   state ─►  512 bytes           x87 and SSE state, aligned to 64
//!             ... red zone, then the interrupted stack; or the end of the alternate stack
//! ```
//! Sources: Linux's `arch/x86/include/asm/sigframe.h`, `uapi/asm/sigcontext.h`, `ucontext.h`;
//! `arch/x86/kernel/signal.c` for the places; `do_sigaltstack` of `kernel/signal.c`.

use interleaf_linux_abi::Errno;
use interleaf_linux_abi::signal::*;

/// Bytes that compiled code may use below its stack pointer.
const RED_ZONE: u64 = 128;
/// Bytes of the state.
const STATE_BYTES: u64 = 512;
/// The registers of a context.
pub const REGISTERS: usize = 23;

/// Words of the frame, and where its parts begin.
const WORDS: usize = 55;
const FLAGS: usize = 1;
const STACK: usize = 3;
const FIRST_REGISTER: usize = 6;
const STATE: usize = 29;
const MASK: usize = 38;
const INFO: usize = 39;
/// Bytes of the frame.
pub const FRAME_BYTES: usize = 8 * WORDS;
/// Bytes from the frame's start to its context, and to what it says of the signal.
pub const CONTEXT_AT: u64 = 8;
/// As above.
pub const INFO_AT: u64 = 8 * INFO as u64;

/// UC_SIGCONTEXT_SS and UC_STRICT_RESTORE_SS: the context has the stack segment, and it is restored. No
/// UC_FP_XSTATE, as on a CPU without `xsave`: the state is that of `fxsave`.
const CONTEXT_FLAGS: u64 = 2 | 4;

/// The stack that handlers may ask for, as `sigaltstack` has it. All-zero is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct AlternateStack {
    /// Its first address.
    pub at: u64,
    /// Its length; 0 where there is none.
    pub len_bytes: u64,
    /// Linux's flags.
    pub flags: u32,
}

impl AlternateStack {
    /// Whether a thread with this stack pointer runs on it.
    fn is_in_use(&self, pointer: u64) -> bool {
        self.flags & SS_AUTODISARM == 0 && self.contains(pointer)
    }

    fn contains(&self, pointer: u64) -> bool {
        pointer > self.at && pointer - self.at <= self.len_bytes
    }

    /// As `sigaltstack` tells it to a thread with this stack pointer.
    pub fn told(&self, pointer: u64) -> Self {
        let mode = match (self.len_bytes, self.is_in_use(pointer)) {
            (0, _) => SS_DISABLE,
            (_, true) => SS_ONSTACK,
            (_, false) => 0,
        };
        Self { flags: mode | self.flags & SS_AUTODISARM, ..*self }
    }

    /// What is there after a thread with this stack pointer has asked for `new`.
    ///
    /// # Errors
    /// EPERM while it runs on the old one, EINVAL for unknown flags, ENOMEM for a stack that is too small.
    pub fn changed_to(self, new: Self, pointer: u64) -> Result<Self, Errno> {
        if self.is_in_use(pointer) {
            return Err(Errno::EPERM);
        }
        match new.flags & !SS_AUTODISARM {
            SS_DISABLE => Ok(Self { at: 0, len_bytes: 0, ..new }),
            0 | SS_ONSTACK if new == self => Ok(self),
            0 | SS_ONSTACK if new.len_bytes < LEAST_STACK => Err(Errno::ENOMEM),
            0 | SS_ONSTACK => Ok(new),
            _ => Err(Errno::EINVAL),
        }
    }

    /// What is left of it while a handler runs.
    pub fn in_handler(self) -> Self {
        if self.flags & SS_AUTODISARM == 0 {
            return self;
        }
        Self { at: 0, len_bytes: 0, flags: SS_DISABLE }
    }
}

/// Where the parts of a frame are put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    /// The frame: the handler's stack pointer.
    pub frame: u64,
    /// The x87 and SSE state.
    pub state: u64,
}

impl Places {
    /// For a thread with this stack pointer, whose handler `asks` for the alternate stack or does not. `None`
    /// where the frame does not fit on that stack. Addresses may be any: nothing was looked at.
    pub fn below(pointer: u64, stack: AlternateStack, asks: bool) -> Option<Self> {
        let was_there = stack.is_in_use(pointer);
        let mut top = pointer.wrapping_sub(RED_ZONE);
        let goes_there = asks && stack.len_bytes > 0 && !stack.is_in_use(top);
        if goes_there {
            top = stack.at.wrapping_add(stack.len_bytes);
        }
        let state = top.wrapping_sub(STATE_BYTES) & !63;
        // As after a call: 8 below a multiple of 16.
        let frame = (state.wrapping_sub(FRAME_BYTES as u64) & !15).wrapping_sub(8);
        let fits = stack.contains(frame) || !(was_there || goes_there);
        fits.then_some(Self { frame, state })
    }
}

/// What a handler is told of its signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// The signal.
    pub signal: u32,
    /// What raised it.
    pub code: i32,
    /// Where.
    pub address: u64,
}

/// What was interrupted, and is gone back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, flags, segments, error, vector, mask, cr2.
    pub registers: [u64; REGISTERS],
    /// Where the x87 and SSE state lies; 0 for that of a new thread.
    pub state_at: u64,
    /// The alternate stack.
    pub stack: AlternateStack,
    /// The signals that were blocked.
    pub mask: u64,
}

impl Context {
    /// The bytes of the frame.
    pub fn frame(&self, restorer: u64, info: &Info) -> [u8; FRAME_BYTES] {
        let mut words = [0; WORDS];
        words[0] = restorer;
        words[FLAGS] = CONTEXT_FLAGS;
        let AlternateStack { at, len_bytes, flags } = self.stack;
        words[STACK..][..3].copy_from_slice(&[at, flags.into(), len_bytes]);
        words[FIRST_REGISTER..][..REGISTERS].copy_from_slice(&self.registers);
        words[STATE] = self.state_at;
        words[MASK] = self.mask;
        words[INFO..][..3].copy_from_slice(&[info.signal.into(), info.code as u32 as u64, info.address]);
        let mut bytes = [0; FRAME_BYTES];
        bytes.chunks_exact_mut(8).zip(words).for_each(|(to, word)| to.copy_from_slice(&word.to_le_bytes()));
        bytes
    }

    /// What a frame says, whatever its bytes are.
    pub fn of_frame(bytes: &[u8; FRAME_BYTES]) -> Self {
        let word =
            |at: usize| bytes[8 * at..][..8].iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
        Self {
            registers: core::array::from_fn(|register| word(FIRST_REGISTER + register)),
            state_at: word(STATE),
            stack: AlternateStack {
                at: word(STACK),
                len_bytes: word(STACK + 2),
                flags: word(STACK + 1) as u32,
            },
            mask: word(MASK),
        }
    }
}

/// The signals that are blocked after `rt_sigprocmask(how, set)`.
///
/// # Errors
/// EINVAL for an unknown `how`.
pub fn blocked_after(blocked: u64, how: u32, set: u64) -> Result<u64, Errno> {
    let set = set & !UNBLOCKABLE;
    match how {
        SIG_BLOCK => Ok(blocked | set),
        SIG_UNBLOCK => Ok(blocked & !set),
        SIG_SETMASK => Ok(set),
        _ => Err(Errno::EINVAL),
    }
}

#[cfg(test)]
#[path = "tests/signal.rs"]
mod tests;
