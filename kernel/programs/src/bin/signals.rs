//! Signals' state: actions, masks and alternate stacks are kept and told; contexts are the handler's to
//! change.
//!
//! `signals`. What ends a process is tried in children.
#![cfg_attr(metal, no_std, no_main)]

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use interleaf_programs::say::granted;
use interleaf_programs::sys::signal::*;
use interleaf_programs::sys::trap::{
    Kept, Odd, fault_with_stack_at_end_of, return_from_no_signal, store_with_registers, try_odd,
};
use interleaf_programs::sys::{
    self, Args, EINVAL, ENOMEM, EPERM, Forked, PAGE, Region, Rights, Shared, Status, exit_group,
};
use interleaf_programs::{GOOD, holds, program, say};

program!(begin);

/// One thread, and its handlers: Relaxed.
static CALLS: AtomicUsize = AtomicUsize::new(0);
static SEEN: AtomicU64 = AtomicU64::new(0);
static REGION: Shared = Shared::new();

/// What a child ends with that a handler has ended, and one in which the fault is over.
const HANDLED: u8 = 53;
const ENDLESS: u8 = 54;
const OVER: u8 = 55;

fn begin(_: Args) -> u8 {
    actions_are_told();
    masks_are_told();
    tried_until_mended();
    floating_state();
    nested();
    blocked_and_ignored();
    masks_of_handlers();
    alternate_stacks();
    nonsense();
    say!("signals: actions, masks and stacks are what they were set to, and handlers change contexts");
    GOOD
}

fn ended_by(signal: usize) -> Status {
    signal as Status
}

fn exited(code: u8) -> Status {
    Status::from(code) << 8
}

/// How a child ends that runs `body`.
fn child(body: impl FnOnce() -> u8) -> Status {
    match granted("fork", sys::fork()) {
        Forked::Child => exit_group(body()),
        Forked::Parent(child) => granted("wait4", sys::wait(Some(child))).1,
    }
}

fn expect(what: &str, status: Status, expected: Status) {
    holds!(status == expected, "{what}: a child ended with {status:#x}, not {expected:#x}");
}

fn actions_are_told() {
    set_handler(SIGSEGV, |_| {});
    let first = Action::handle(0, 0);
    holds!(
        granted("rt_sigaction", set_action(SIGSEGV, first)) == Action::DEFAULT,
        "a first action is the default"
    );
    holds!(granted("rt_sigaction", action_of(SIGSEGV)) == first, "the handler of SIGSEGV is not told");
    granted("rt_sigaction", set_action(SIGUSR1, Action::IGNORE));
    holds!(granted("rt_sigaction", action_of(SIGUSR1)) == Action::IGNORE, "SIGUSR1 is not ignored");
    let with_mask = Action::handle(NODEFER | ONSTACK, set_of(SIGUSR2));
    granted("rt_sigaction", set_action(SIGBUS, with_mask));
    holds!(granted("rt_sigaction", action_of(SIGBUS)) == with_mask, "SIGBUS's flags or mask are not told");
    // SIGKILL cannot be in a mask, and flags that no kernel knows are forgotten.
    granted("rt_sigaction", set_action(SIGBUS, Action::handle(NODEFER | 0x10_0000, !0)));
    let told = granted("rt_sigaction", action_of(SIGBUS));
    let expected = Action::handle(NODEFER, !(set_of(9) | set_of(19)));
    holds!(told == expected, "{told:x?}, not {expected:x?}");
    for signal in [9, 19, 0, 65] {
        holds!(set_action(signal, Action::IGNORE) == Err(EINVAL), "an action of signal {signal}");
    }
    holds!(action_with_set_of(4) == Err(EINVAL), "a set of four bytes");
    for signal in [SIGSEGV, SIGUSR1, SIGBUS] {
        granted("rt_sigaction", set_action(signal, Action::DEFAULT));
    }
}

fn masks_are_told() {
    let (first, second) = (set_of(SIGUSR1), set_of(SIGUSR2));
    holds!(granted("rt_sigprocmask", mask()) == 0, "signals are blocked at first");
    holds!(granted("rt_sigprocmask", change_mask(0, first | set_of(9))) == 0, "the old mask is not told");
    holds!(
        granted("rt_sigprocmask", change_mask(0, second)) == first,
        "SIGKILL is blocked, or SIGUSR1 is not"
    );
    holds!(granted("rt_sigprocmask", change_mask(1, first)) == first | second, "both are blocked");
    // A child has its parent's.
    let inherited = child(|| u8::from(mask() == Ok(second)));
    expect("the mask of a child", inherited, exited(1));
    holds!(granted("rt_sigprocmask", change_mask(2, 0)) == second, "SIGUSR2 alone is blocked");
    holds!(change_mask(3, 0) == Err(EINVAL) && mask() == Ok(0), "an unknown change of the mask");
}

/// The access is tried again until the handler has mended it, with all registers as they were.
fn tried_until_mended() {
    let region = granted("mmap", Region::map(1, Rights::NONE));
    REGION.set(region);
    CALLS.store(0, Relaxed);
    set_handler(SIGSEGV, |caught| {
        holds!(caught.told().address == REGION.get().start(), "{:x?}", caught.told());
        if CALLS.fetch_add(1, Relaxed) == 4 {
            granted("mprotect", REGION.get().protect(Rights::WRITE));
        }
    });
    granted("rt_sigaction", set_action(SIGSEGV, Action::handle(0, 0)));
    let kept = store_with_registers(&region);
    let expected = Kept { r12: 0x1212, r15: 0x1515, xmm7: 0x7777, carry: true };
    holds!(kept == expected, "{kept:x?}, not {expected:x?}");
    holds!((CALLS.load(Relaxed), region.read(0, 0)) == (5, 9), "it was tried {} times", CALLS.load(Relaxed));
    granted("munmap", region.unmap());
}

/// The handler sees the state of SSE, and what it changes there is what the program goes on with.
fn floating_state() {
    let region = granted("mmap", Region::map(1, Rights::READ));
    REGION.set(region);
    set_handler(SIGSEGV, |caught| {
        holds!(caught.told().mask == 0, "the mask before the signal: {:x?}", caught.told());
        holds!(mask() == Ok(set_of(SIGSEGV)), "a signal is not blocked in its handler");
        SEEN.store(caught.replace_xmm7(0x4444).into(), Relaxed);
        granted("mprotect", REGION.get().protect(Rights::WRITE));
    });
    let kept = store_with_registers(&region);
    holds!((SEEN.load(Relaxed), kept.xmm7) == (0x7777, 0x4444), "xmm7: {:x} {kept:x?}", SEEN.load(Relaxed));
    holds!(mask() == Ok(0), "a signal is blocked behind its handler");
    granted("munmap", region.unmap());
}

/// Reads where nothing is, with a handler that `caught` is and these flags.
fn fault_with(caught: fn(&mut Caught<'_>), flags: usize) -> u8 {
    CALLS.store(0, Relaxed);
    set_handler(SIGSEGV, caught);
    granted("rt_sigaction", set_action(SIGSEGV, Action::handle(flags, 0)));
    touch_nothing();
    OVER
}

fn touch_nothing() {
    let region = granted("mmap", Region::map(1, Rights::WRITE));
    granted("munmap", region.unmap());
    region.read(0, 0);
}

fn faults_again(_: &mut Caught<'_>) {
    if CALLS.fetch_add(1, Relaxed) == 2 {
        exit_group(HANDLED);
    }
    touch_nothing();
}

fn just_returns(_: &mut Caught<'_>) {
    if CALLS.fetch_add(1, Relaxed) == 4 {
        exit_group(ENDLESS);
    }
}

fn nested() {
    expect("a fault in its handler", child(|| fault_with(faults_again, 0)), ended_by(SIGSEGV));
    expect("the same with SA_NODEFER", child(|| fault_with(faults_again, NODEFER)), exited(HANDLED));
    expect("with SA_RESETHAND", child(|| fault_with(faults_again, RESETHAND | NODEFER)), ended_by(SIGSEGV));
    expect("SA_RESETHAND, and it returns", child(|| fault_with(just_returns, RESETHAND)), ended_by(SIGSEGV));
    expect("a handler that returns", child(|| fault_with(just_returns, 0)), exited(ENDLESS));
    let told = child(|| {
        set_handler(SIGSEGV, |_| {
            let now = granted("rt_sigaction", action_of(SIGSEGV));
            let handled = Action::handle(RESETHAND, 0);
            holds!(now != handled && now != Action::DEFAULT, "SA_RESETHAND leaves {now:x?}");
            exit_group(HANDLED)
        });
        granted("rt_sigaction", set_action(SIGSEGV, Action::handle(RESETHAND, 0)));
        touch_nothing();
        OVER
    });
    expect("the action within its handler", told, exited(HANDLED));
}

/// A signal that a thread raises itself cannot be put off.
fn blocked_and_ignored() {
    let blocked = child(|| {
        granted("rt_sigprocmask", change_mask(0, set_of(SIGSEGV)));
        fault_with(faults_again, NODEFER)
    });
    expect("a blocked signal", blocked, ended_by(SIGSEGV));
    let ignored = child(|| {
        granted("rt_sigaction", set_action(SIGSEGV, Action::IGNORE));
        touch_nothing();
        OVER
    });
    expect("an ignored signal", ignored, ended_by(SIGSEGV));
    let unhandled = child(|| {
        granted("rt_sigaction", set_action(SIGILL, Action::DEFAULT));
        let _ = try_odd(Odd::Undefined);
        OVER
    });
    expect("a signal without a handler", unhandled, ended_by(SIGILL));
    let no_stack = child(|| {
        set_handler(SIGSEGV, just_returns);
        granted("rt_sigaction", set_action(SIGSEGV, Action::handle(0, 0)));
        let stack = granted("mmap", Region::map(1, Rights::WRITE));
        granted("munmap", stack.unmap());
        fault_with_stack_at_end_of(&stack)
    });
    expect("no stack for the handler", no_stack, ended_by(SIGSEGV));
}

/// The action's mask is blocked while the handler runs, and not behind it.
fn masks_of_handlers() {
    let region = granted("mmap", Region::map(1, Rights::NONE));
    REGION.set(region);
    set_handler(SIGSEGV, |_| {
        SEEN.store(granted("rt_sigprocmask", mask()), Relaxed);
        granted("mprotect", REGION.get().protect(Rights::READ));
    });
    granted("rt_sigaction", set_action(SIGSEGV, Action::handle(NODEFER, set_of(SIGUSR2))));
    granted("rt_sigprocmask", change_mask(2, set_of(SIGUSR1)));
    region.read(0, 0);
    let both = set_of(SIGUSR1) | set_of(SIGUSR2);
    holds!(SEEN.load(Relaxed) == both, "blocked in a handler: {:#x}", SEEN.load(Relaxed));
    holds!(granted("rt_sigprocmask", change_mask(2, 0)) == set_of(SIGUSR1), "blocked behind it");
    granted("munmap", region.unmap());
}

fn alternate_stacks() {
    let stack = granted("mmap", Region::map(4, Rights::WRITE));
    let bytes = 4 * PAGE;
    holds!(granted("sigaltstack", signal_stack()).flags == SignalStack::NONE, "there is a stack at first");
    holds!(set_signal_stack(&stack, 2047, 0) == Err(ENOMEM), "a stack that is too small");
    holds!(set_signal_stack(&stack, bytes, 4) == Err(EINVAL), "a stack with odd flags");
    granted("sigaltstack", set_signal_stack(&stack, bytes, 0));
    let told = granted("sigaltstack", signal_stack());
    holds!(told == SignalStack { start: stack.start(), flags: 0, bytes }, "{told:x?}");
    // In a child, which has it too: the handler runs there, and mends what it came for.
    let on_it = child(|| {
        let page = granted("mmap", Region::map(1, Rights::NONE));
        REGION.set(page);
        set_handler(SIGSEGV, |_| {
            let told = granted("sigaltstack", signal_stack());
            let mark = 0u8;
            let at = &raw const mark as usize;
            let on_it = (told.start..told.start + told.bytes).contains(&at);
            holds!(on_it && told.flags == SignalStack::IN_USE, "the handler runs at {at:#x}: {told:x?}");
            holds!(set_signal_stack(&REGION.get(), 4096, 0) == Err(EPERM), "a stack in use is exchanged");
            CALLS.store(usize::from(on_it), Relaxed);
            granted("mprotect", REGION.get().protect(Rights::READ));
        });
        granted("rt_sigaction", set_action(SIGSEGV, Action::handle(ONSTACK, 0)));
        CALLS.store(0, Relaxed);
        page.read(0, 0);
        let told = granted("sigaltstack", signal_stack());
        holds!(CALLS.load(Relaxed) == 1 && told.flags == 0, "behind the handler: {told:x?}");
        // Also where the stack proper is gone.
        set_handler(SIGSEGV, |_| exit_group(HANDLED));
        let gone = granted("mmap", Region::map(1, Rights::WRITE));
        granted("munmap", gone.unmap());
        fault_with_stack_at_end_of(&gone)
    });
    expect("a handler on the alternate stack", on_it, exited(HANDLED));
    granted("sigaltstack", set_signal_stack(&stack, bytes, SignalStack::NONE));
    holds!(granted("sigaltstack", signal_stack()).flags == SignalStack::NONE, "the stack is still there");
    granted("munmap", stack.unmap());
}

/// A context that a program cannot have ends it.
fn nonsense() {
    let zeros = granted("mmap", Region::map(2, Rights::WRITE));
    let back = child(|| {
        granted("rt_sigaction", set_action(SIGSEGV, Action::DEFAULT));
        return_from_no_signal(&zeros.part(1, 1))
    });
    expect("going back from no signal", back, ended_by(SIGSEGV));
    granted("munmap", zeros.unmap());
}
