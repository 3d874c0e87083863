//! Signals: their numbers, codes, and the flags of their calls.

use linux_raw_sys::general as raw;

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        $($(#[$doc])* pub const $name: u32 = raw::$name;)+
    };
}

numbers! {
    /// An undefined instruction.
    SIGILL,
    /// A breakpoint or a single step.
    SIGTRAP,
    /// Memory that is there and cannot be accessed.
    SIGBUS,
    /// An error of arithmetic.
    SIGFPE,
    /// The signal that ends a process whatever it wants.
    SIGKILL,
    /// An access that is not allowed.
    SIGSEGV,
    /// A child has ended.
    SIGCHLD,
    /// The signal that stops a process whatever it wants.
    SIGSTOP,
    /// The set of signals is blocked besides.
    SIG_BLOCK,
    /// The set is not blocked any more.
    SIG_UNBLOCK,
    /// The set alone is blocked.
    SIG_SETMASK,
    /// No SIGCHLD for a child that stops.
    SA_NOCLDSTOP,
    /// Children that end leave nothing to wait for.
    SA_NOCLDWAIT,
    /// The handler takes three arguments.
    SA_SIGINFO,
    /// The action names what the handler returns to.
    SA_RESTORER,
    /// The handler runs on the alternate stack.
    SA_ONSTACK,
    /// Interrupted calls start again.
    SA_RESTART,
    /// The signal is not blocked in its handler.
    SA_NODEFER,
    /// The handler is called once.
    SA_RESETHAND,
    /// Tags of addresses are told.
    SA_EXPOSE_TAGBITS,
    /// The thread runs on the alternate stack.
    SS_ONSTACK,
    /// There is no alternate stack.
    SS_DISABLE,
    /// The alternate stack is given up while a handler runs.
    SS_AUTODISARM,
}

/// The action that a signal has of itself.
pub const SIG_DFL: u64 = 0;
/// The action of a signal that is ignored.
pub const SIG_IGN: u64 = 1;
/// Signals have the numbers from 1 to this.
pub const LAST_SIGNAL: u32 = 64;
/// The least alternate stack, bytes.
pub const LEAST_STACK: u64 = 2048;

/// The flags of an action that Linux keeps; it forgets all others, and says so when it is asked.
pub const SA_KNOWN: u64 = (SA_NOCLDSTOP
    | SA_NOCLDWAIT
    | SA_SIGINFO
    | SA_RESTORER
    | SA_ONSTACK
    | SA_RESTART
    | SA_NODEFER
    | SA_RESETHAND
    | SA_EXPOSE_TAGBITS) as u64;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        $($(#[$doc])* pub const $name: i32 = raw::$name as i32;)+
    };
}

codes! {
    /// The kernel, for no reason that has a code.
    SI_KERNEL,
    /// SIGILL: an operand.
    ILL_ILLOPN,
    /// SIGFPE: a division of integers.
    FPE_INTDIV,
    /// SIGFPE: a division by zero.
    FPE_FLTDIV,
    /// SIGFPE: a result that is too large.
    FPE_FLTOVF,
    /// SIGFPE: a result that is too small, or a denormal operand.
    FPE_FLTUND,
    /// SIGFPE: a result that is not exact.
    FPE_FLTRES,
    /// SIGFPE: an operation without a result.
    FPE_FLTINV,
    /// SIGSEGV: nothing is mapped there.
    SEGV_MAPERR,
    /// SIGSEGV: what is mapped there does not allow it.
    SEGV_ACCERR,
    /// SIGBUS: an address that is not aligned.
    BUS_ADRALN,
    /// SIGBUS: an address behind which there is nothing.
    BUS_ADRERR,
    /// SIGTRAP: a breakpoint.
    TRAP_BRKPT,
    /// SIGTRAP: a single step.
    TRAP_TRACE,
    /// SIGTRAP: a breakpoint of a debug register.
    TRAP_HWBKPT,
}

/// The bit of a signal in a set.
pub const fn bit(signal: u32) -> u64 {
    1 << (signal - 1)
}

/// What a set can never block.
pub const UNBLOCKABLE: u64 = bit(SIGKILL) | bit(SIGSTOP);

/// The code of SIGFPE for exceptions of x87 or SSE that are raised and not masked; `None` for none, which
/// Linux takes for a trap that has nothing to tell.
pub const fn float_code(exceptions: u32) -> Option<i32> {
    Some(match exceptions {
        raised if raised & 0x01 != 0 => FPE_FLTINV,
        raised if raised & 0x04 != 0 => FPE_FLTDIV,
        raised if raised & 0x08 != 0 => FPE_FLTOVF,
        raised if raised & 0x12 != 0 => FPE_FLTUND,
        raised if raised & 0x20 != 0 => FPE_FLTRES,
        _ => return None,
    })
}
