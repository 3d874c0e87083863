//! The stacks of loom's threads, kept for the next execution.
//!
//! loom gives each thread of each execution a new stack: a call of mmap, a fault for each page that is
//! touched, and a call of munmap, which interrupts the CPU on which another model runs. The two functions
//! here stand before the C library's in the program of the models: a stack that is given back is kept, and
//! handed out again with what it holds, since a stack is written before it is read.

use core::ffi::{c_int, c_long, c_void};
use core::ptr;
use std::sync::Mutex;

/// Bytes of a stack of the size that loom's threads have, with its guard page.
const STACK_BYTES: usize = 9 * 4096;
/// Most stacks that are kept: more than the threads of all models that run at once.
const MOST_KEPT: usize = 32;
/// `MAP_STACK`: the mappings that are meant have it.
const MAP_STACK: c_int = 0x2_0000;

#[cfg(target_arch = "x86_64")]
const MMAP_AND_MUNMAP: [c_long; 2] = [9, 11];
#[cfg(not(target_arch = "x86_64"))]
const MMAP_AND_MUNMAP: [c_long; 2] = [222, 215];

unsafe extern "C" {
    /// The C library's door to every system call.
    fn syscall(number: c_long, ...) -> c_long;
}

/// A stack that was mapped, by its address. It stays mapped.
#[derive(Clone, Copy)]
enum Stack {
    None,
    Used(usize),
    Kept(usize),
}

static STACKS: Mutex<[Stack; MOST_KEPT]> = Mutex::new([Stack::None; MOST_KEPT]);

/// Changes the first of the stacks for which `change` returns what it becomes. The allocator may map memory,
/// so nothing is allocated here.
fn change<R>(change: impl Fn(Stack) -> Option<(Stack, R)>) -> Option<R> {
    let mut stacks = STACKS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    stacks.iter_mut().find_map(|stack| {
        let (changed, result) = change(*stack)?;
        *stack = changed;
        Some(result)
    })
}

/// mmap, but that a stack may be one that is kept.
///
/// # Safety
/// As mmap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap(
    at: *mut c_void,
    len: usize,
    rights: c_int,
    flags: c_int,
    fd: c_int,
    offset: c_long,
) -> *mut c_void {
    let is_stack = at.is_null() && len == STACK_BYTES && flags & MAP_STACK != 0;
    let reused = |stack| match stack {
        Stack::Kept(start) => Some((Stack::Used(start), start)),
        _ => None,
    };
    if let Some(start) = is_stack.then(|| change(reused)).flatten() {
        return ptr::with_exposed_provenance_mut(start);
    }
    let [rights, flags, fd] = [rights, flags, fd].map(c_long::from);
    // SAFETY: the caller's arguments are those of mmap, each as wide as a register.
    let start = unsafe { syscall(MMAP_AND_MUNMAP[0], at, len, rights, flags, fd, offset) } as usize;
    if is_stack && start != usize::MAX {
        change(|stack| matches!(stack, Stack::None).then_some((Stack::Used(start), ())));
    }
    ptr::with_exposed_provenance_mut(start)
}

/// munmap, but that a stack is kept.
///
/// # Safety
/// As munmap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn munmap(at: *mut c_void, len: usize) -> c_int {
    let kept = |stack| match stack {
        Stack::Used(start) if start == at.addr() && len == STACK_BYTES => Some((Stack::Kept(start), ())),
        _ => None,
    };
    if change(kept).is_some() {
        return 0;
    }
    // SAFETY: the caller's arguments are those of munmap, and nothing here is kept of what they name.
    unsafe { syscall(MMAP_AND_MUNMAP[1], at, len) as c_int }
}
