//! Calls about signals. Each is kept as Linux keeps it, and told when it is asked for; what would have no
//! effect here is refused.

use super::missing::{self, MissingFeature};
use super::{CallResult, words};
use crate::arch::percpu;
use crate::arch::user;
use crate::task::process;
use crate::task::signal::Action;
use interleaf::units::VirtAddr;
use interleaf_kernel::core::signal::{AlternateStack, blocked_after};
use interleaf_linux_abi::Errno;
use interleaf_linux_abi::signal::*;

/// Bytes of a set of signals.
const SET_BYTES: u64 = 8;

/// Every signal's action is kept. Only what a thread raises itself is ever delivered, and Linux would raise
/// one more for the calls that there are: SIGCHLD, whose handler would wait for ever. That is refused.
pub fn rt_sigaction(signal: u64, new: u64, old: u64, set_bytes: u64) -> CallResult {
    let number = signal as u32;
    if set_bytes != SET_BYTES || !(1..=LAST_SIGNAL).contains(&number) {
        return Err(Errno::EINVAL);
    }
    let actions = process::current().actions();
    let before = if new == 0 {
        actions.get(number)
    } else {
        let [handler, flags, restorer, mask] = words::read::<4>(new)?;
        if UNBLOCKABLE & bit(number) != 0 {
            return Err(Errno::EINVAL);
        }
        let action = Action { handler, flags: flags & SA_KNOWN, restorer, mask: mask & !UNBLOCKABLE };
        if number == SIGCHLD && (handler != SIG_DFL || action.has(SA_NOCLDWAIT)) {
            return Err(missing::refuse_feature(MissingFeature::ChildSignal));
        }
        actions.set(number, action)
    };
    if old != 0 {
        words::write(old, [before.handler, before.flags, before.restorer, before.mask])?;
    }
    Ok(0)
}

pub fn rt_sigprocmask(how: u64, new: u64, old: u64, set_bytes: u64) -> CallResult {
    if set_bytes != SET_BYTES {
        return Err(Errno::EINVAL);
    }
    let signals = &percpu::thread().signals;
    let before = signals.blocked();
    if new != 0 {
        let [set] = words::read(new)?;
        signals.set_blocked(blocked_after(before, how as u32, set)?);
    }
    if old != 0 {
        words::write(old, [before])?;
    }
    Ok(0)
}

/// The alternate stack of the calling thread, whose stack pointer is `pointer`.
pub fn sigaltstack(new: u64, old: u64, pointer: u64) -> CallResult {
    let signals = &percpu::thread().signals;
    let before = signals.stack();
    if new != 0 {
        let [at, flags, len_bytes] = words::read(new)?;
        let wanted = AlternateStack { at, len_bytes, flags: flags as u32 };
        signals.set_stack(before.changed_to(wanted, pointer)?);
    }
    if old != 0 {
        let AlternateStack { at, len_bytes, flags } = before.told(pointer);
        words::write(old, [at, flags.into(), len_bytes])?;
    }
    Ok(0)
}

/// Which signals wait: none ever does.
pub fn rt_sigpending(at: u64, set_bytes: u64) -> CallResult {
    if set_bytes > SET_BYTES {
        return Err(Errno::EINVAL);
    }
    user::write(VirtAddr(at), &[0; SET_BYTES as usize][..set_bytes as usize])?;
    Ok(0)
}
