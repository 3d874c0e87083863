//! Signals: actions, masks, the alternate stack, and what a handler is told.
//!
//! Handlers are functions of Rust's that are called between two instructions of the thread that raised the
//! signal; when one returns, the instruction is tried again. They may change the context only in ways that
//! the interrupted code is made for (`trap`).

use super::{Errno, Region, call, nr};
use core::arch::naked_asm;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// An undefined instruction, a trap, a bus error, an error of arithmetic, a refused access; and one that
/// nothing here raises.
pub const SIGILL: usize = 4;
/// As above.
pub const SIGTRAP: usize = 5;
/// As above.
pub const SIGBUS: usize = 7;
/// As above.
pub const SIGFPE: usize = 8;
/// As above.
pub const SIGUSR1: usize = 10;
/// As above.
pub const SIGSEGV: usize = 11;
/// As above.
pub const SIGUSR2: usize = 12;

/// The signal is not blocked in its handler.
pub const NODEFER: usize = 0x4000_0000;
/// The handler is called once.
pub const RESETHAND: usize = 0x8000_0000;
/// The handler runs on the alternate stack.
pub const ONSTACK: usize = 0x0800_0000;
/// SA_SIGINFO | SA_RESTORER, which every handler here has.
const EACH: usize = 0x4 | 0x0400_0000;

/// The code of a signal that the kernel raises for no reason that has a code.
pub const SI_KERNEL: i32 = 128;
/// The code of an address that is mapped, but not for this access.
const SEGV_ACCERR: i32 = 2;

/// The set of one signal.
pub const fn set_of(signal: usize) -> u64 {
    1 << (signal - 1)
}

/// What is done about a signal, as the kernel keeps it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Action {
    handler: usize,
    flags: usize,
    restorer: usize,
    mask: u64,
}

impl Action {
    /// What a signal does of itself.
    pub const DEFAULT: Action = Action { handler: 0, flags: 0, restorer: 0, mask: 0 };
    /// Nothing at all.
    pub const IGNORE: Action = Action { handler: 1, flags: 0, restorer: 0, mask: 0 };

    /// The handler is called that was set for the signal, with these flags and signals blocked.
    pub fn handle(flags: usize, mask: u64) -> Action {
        let (handler, restorer) = (caught as *const () as usize, restore as *const () as usize);
        Action { handler, flags: flags | EACH, restorer, mask }
    }
}

/// A signal, as the kernel tells of it: the used part of Linux's `siginfo_t`.
#[repr(C)]
struct Info {
    signal: i32,
    errno: i32,
    code: i32,
    padding: i32,
    address: usize,
}

/// Linux's `ucontext_t`, as the kernel writes it.
#[repr(C)]
pub(super) struct Context {
    flags: u64,
    link: usize,
    stack: [usize; 3],
    pub(super) registers: [u64; 23],
    state: *mut State,
    reserved: [u64; 8],
    mask: u64,
}

/// The x87 and SSE state.
#[repr(C)]
struct State {
    x87: [u32; 40],
    xmm: [[u32; 4]; 16],
}

/// Places in the registers of a context.
pub(super) const RIP: usize = 16;
pub(super) const FLAGS: usize = 17;
const ERROR: usize = 19;
const VECTOR: usize = 20;
const CR2: usize = 22;

/// What a handler is told of its signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Told {
    /// The signal.
    pub signal: usize,
    /// What raised it.
    pub code: i32,
    /// Where.
    pub address: usize,
    /// The error code, the number and the address of the CPU's exception.
    pub error: u64,
    /// As above.
    pub vector: u64,
    /// As above.
    pub cr2: usize,
    /// The signals that were blocked.
    pub mask: u64,
    /// Whether the x87 and SSE state is there.
    pub has_state: bool,
}

/// A signal that is being handled.
pub struct Caught<'a> {
    told: Told,
    pub(super) context: &'a mut Context,
}

impl Caught<'_> {
    /// What the kernel says of it.
    pub fn told(&self) -> Told {
        self.told
    }

    /// The low word of xmm7 as it was interrupted; it becomes `new`.
    pub fn replace_xmm7(&mut self, new: u32) -> u32 {
        assert!(self.told.has_state);
        // SAFETY: not null, as just checked; the kernel has the state there while the handler runs.
        let state = unsafe { &mut *self.context.state };
        core::mem::replace(&mut state.xmm[7][0], new)
    }
}

/// The function that is called for each signal; 0 for none. Relaxed: set before the signal is raised, by the
/// same thread or before it starts.
static HANDLERS: [AtomicUsize; 64] = [const { AtomicUsize::new(0) }; 64];

/// Sets the function that is called for a signal, on the thread that raised it.
pub fn set_handler(signal: usize, handler: fn(&mut Caught<'_>)) {
    HANDLERS[signal].store(handler as usize, Relaxed);
}

/// Sets what is done about a signal; what was done before.
pub fn set_action(signal: usize, action: Action) -> Result<Action, Errno> {
    let mut old = Action::DEFAULT;
    let words = [signal, &raw const action as usize, &raw mut old as usize, 8, 0, 0];
    // SAFETY: the kernel reads the one action now and writes the other; it calls the first one's functions
    // later, which are made for that.
    unsafe { call(nr::RT_SIGACTION, words) }?;
    Ok(old)
}

/// What is done about a signal.
pub fn action_of(signal: usize) -> Result<Action, Errno> {
    let mut now = Action::DEFAULT;
    // SAFETY: the kernel writes the action.
    unsafe { call(nr::RT_SIGACTION, [signal, 0, &raw mut now as usize, 8, 0, 0]) }?;
    Ok(now)
}

/// Asks for an action with a set of so many bytes.
pub fn action_with_set_of(bytes: usize) -> Result<usize, Errno> {
    // SAFETY: nothing is read or written.
    unsafe { call(nr::RT_SIGACTION, [SIGUSR1, 0, 0, bytes, 0, 0]) }
}

/// Changes the blocked signals: 0 blocks the set besides, 1 no longer, 2 alone. Those that were blocked.
pub fn change_mask(how: usize, set: u64) -> Result<u64, Errno> {
    let mut old = 0u64;
    // SAFETY: the kernel reads the one set and writes the other.
    unsafe { call(nr::RT_SIGPROCMASK, [how, &raw const set as usize, &raw mut old as usize, 8, 0, 0]) }?;
    Ok(old)
}

/// The blocked signals.
pub fn mask() -> Result<u64, Errno> {
    let mut now = 0u64;
    // SAFETY: the kernel writes the set. Without a new one it does not look at the first word.
    unsafe { call(nr::RT_SIGPROCMASK, [77, 0, &raw mut now as usize, 8, 0, 0]) }?;
    Ok(now)
}

/// Linux's `stack_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SignalStack {
    /// Its first address.
    pub start: usize,
    /// Linux's flags.
    pub flags: u32,
    /// Its length.
    pub bytes: usize,
}

impl SignalStack {
    /// In use by this thread, and none at all.
    pub const IN_USE: u32 = 1;
    /// As above.
    pub const NONE: u32 = 2;
}

/// Makes a region the alternate stack of this thread, or the first `bytes` of it.
pub fn set_signal_stack(region: &Region, bytes: usize, flags: u32) -> Result<SignalStack, Errno> {
    assert!(bytes <= region.pages() * super::PAGE);
    let (new, mut old) = (SignalStack { start: region.start(), flags, bytes }, SignalStack::default());
    // SAFETY: the kernel reads the one and writes the other; handlers run in the region, which is not Rust's.
    unsafe { call(nr::SIGALTSTACK, [&raw const new as usize, &raw mut old as usize, 0, 0, 0, 0]) }?;
    Ok(old)
}

/// The alternate stack of this thread.
pub fn signal_stack() -> Result<SignalStack, Errno> {
    let mut now = SignalStack::default();
    // SAFETY: the kernel writes it.
    unsafe { call(nr::SIGALTSTACK, [0, &raw mut now as usize, 0, 0, 0, 0]) }?;
    Ok(now)
}

/// An access that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegFault {
    /// The address.
    pub address: usize,
    /// Whether the address is mapped, but not for this access.
    pub mapped: bool,
}

/// The function that is called for a refused access; 0 for none. Relaxed: as [`HANDLERS`].
static ON_SEGFAULT: AtomicUsize = AtomicUsize::new(0);

/// Sets the function that is called at every refused access, on the thread that tried it, between two of its
/// instructions.
pub fn on_segfault(handler: fn(SegFault)) -> Result<(), Errno> {
    ON_SEGFAULT.store(handler as usize, Relaxed);
    set_handler(SIGSEGV, |caught| {
        let Told { code, address, .. } = caught.told();
        let handler = ON_SEGFAULT.load(Relaxed);
        // SAFETY: only `on_segfault` stores there, and it stores a function of this type.
        let handler: fn(SegFault) = unsafe { core::mem::transmute(handler) };
        handler(SegFault { address, mapped: code == SEGV_ACCERR });
    });
    set_action(SIGSEGV, Action::handle(NODEFER, 0)).map(drop)
}

/// The handler that the kernel calls.
extern "C" fn caught(signal: i32, info: *const Info, context: *mut Context) {
    // SAFETY: SA_SIGINFO has the kernel hand over a `siginfo_t` and a `ucontext_t` on the stack, which are
    // this handler's until it returns.
    let (info, context) = unsafe { (&*info, &mut *context) };
    assert!(info.signal == signal && info.errno == 0);
    let told = Told {
        signal: signal as usize,
        code: info.code,
        address: info.address,
        error: context.registers[ERROR],
        vector: context.registers[VECTOR],
        cr2: context.registers[CR2] as usize,
        mask: context.mask,
        has_state: !context.state.is_null(),
    };
    let handler = HANDLERS[signal as usize].load(Relaxed);
    assert!(handler != 0, "a signal without a handler");
    // SAFETY: only `set_handler` stores there, and it stores a function of this type.
    let handler: fn(&mut Caught<'_>) = unsafe { core::mem::transmute(handler) };
    handler(&mut Caught { told, context });
}

/// Where `caught` returns to: back to the interrupted instruction, by `rt_sigreturn`.
#[unsafe(naked)]
extern "C" fn restore() -> ! {
    naked_asm!("mov eax, 15", "syscall", "ud2")
}
