//! Memory of programs, touched from the kernel.
//!
//! The copy is one routine of `trap.s`. A page fault in it goes to the space like any other; where that
//! cannot resolve it, the routine ends early and returns the number of missing bytes: an error for the
//! program, `EFAULT`. Nothing is locked meanwhile, because the fault may sleep; debug builds check that. With
//! preemption or interrupts off, no fault is resolved: [`try_load`] reads a word under a lock in this way.

use super::percpu;
use super::registers::Features;
use core::arch::asm;
use core::sync::atomic::{AtomicBool, Ordering::*};
use interleaf::units::VirtAddr;

/// The end of programs' addresses: a page below the hole, as `sysret` requires.
pub const USER_END: u64 = 0x7fff_ffff_f000;

/// The program's memory could not be touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadAddress;

/// Whether the CPUs protect programs' memory from the kernel; written once, at boot.
static SMAP: AtomicBool = AtomicBool::new(false);

unsafe extern "C" {
    fn copy_user(to: usize, from: usize, len: usize) -> usize;
    fn load_user(at: u64) -> Loaded;
    static copy_user_end: u8;
    static copy_user_failed: u8;
    static load_user_end: u8;
    static load_user_failed: u8;
}

/// The result of `load_user`, in two registers.
#[repr(C)]
struct Loaded {
    value: u64,
    is_there: u64,
}

/// Notes the features of the CPUs. Called at boot.
pub fn init(features: Features) {
    SMAP.store(features.smap, Relaxed);
}

/// Runs `f`, which may touch programs' memory. Interrupt handlers cannot touch it: they run with the kernel's
/// flags.
fn open<R>(f: impl FnOnce() -> R) -> R {
    let smap = SMAP.load(Relaxed);
    if smap {
        // SAFETY: the CPU has the flag, which lifts a protection and changes nothing else; `f` answers for
        // its accesses.
        unsafe { asm!("stac", options(nostack)) };
    }
    let result = f();
    if smap {
        // SAFETY: closing is always allowed.
        unsafe { asm!("clac", options(nostack)) };
    }
    result
}

/// Whether `len` bytes at `at` lie where programs' memory is.
fn is_users(at: VirtAddr, len: usize) -> bool {
    at.0.checked_add(len as u64).is_some_and(|end| end <= USER_END)
}

/// Copies `len` bytes, up to the first that cannot be accessed.
///
/// # Safety
/// The ranges are a slice of the caller's, borrowed as the direction wants, and addresses of programs
/// (`is_users`), in this order or the other.
unsafe fn copy(to: usize, from: usize, len: usize) -> Result<(), BadAddress> {
    debug_assert!(
        !percpu::is_preempt_off(),
        "a program's memory is touched where its fault could not be resolved"
    );
    debug_assert_eq!(percpu::thread().context().held(), 0, "a program's memory is touched under a lock");
    debug_assert!(
        percpu::thread().has_space(),
        "a program's memory is touched by a thread that has no space"
    );
    // SAFETY: the routine accesses the two ranges, and goes on at its end where a fault in it is not
    // resolved. Of the kernel's memory it reads or writes the slice alone.
    let missing = open(|| unsafe { copy_user(to, from, len) });
    if missing == 0 { Ok(()) } else { Err(BadAddress) }
}

/// Fills `to` from a program's memory.
///
/// # Errors
/// Where a byte cannot be read; `to` holds what came before.
pub fn read(at: VirtAddr, to: &mut [u8]) -> Result<(), BadAddress> {
    if !is_users(at, to.len()) {
        return Err(BadAddress);
    }
    // SAFETY: to the caller's slice, from where `is_users` says that programs are.
    unsafe { copy(to.as_mut_ptr().expose_provenance(), at.0 as usize, to.len()) }
}

/// Puts bytes into a program's memory: that of the space that this thread runs in.
///
/// # Errors
/// Where a byte cannot be written; those before it are. Where the thread runs in no space.
pub fn write(at: VirtAddr, from: &[u8]) -> Result<(), BadAddress> {
    // Without a space the boot tables may be loaded, which map all memory at its own addresses.
    if !is_users(at, from.len()) || !percpu::thread().has_space() {
        return Err(BadAddress);
    }
    // SAFETY: from the caller's slice, to where `is_users` says that programs are. The thread's space is
    // loaded, and maps programs' memory alone there.
    unsafe { copy(at.0 as usize, from.as_ptr().expose_provenance(), from.len()) }
}

/// Loads 8 bytes of a program's memory.
pub fn try_load(at: VirtAddr) -> Option<u64> {
    if !is_users(at, 8) {
        return None;
    }
    // SAFETY: loads where programs are, as just checked, or says that it could not; the compiler knows
    // nothing of it.
    let loaded = open(|| unsafe { load_user(at.0) });
    (loaded.is_there == 1).then_some(loaded.value)
}

/// Loads 4 bytes of a program's memory, aligned to 4.
pub fn try_load_u32(at: VirtAddr) -> Option<u32> {
    // The 8 bytes around it lie in one page, as it does.
    let word = try_load(VirtAddr(at.0 & !7))?;
    Some((word >> (8 * (at.0 & 4))) as u32)
}

/// Where a routine goes on whose access at instruction `rip` could not be resolved; `None` where `rip` is
/// none of those.
pub fn recovery(rip: u64) -> Option<u64> {
    let at = |symbol: *const u8| symbol.addr() as u64;
    let routines = [
        (copy_user as *const u8, &raw const copy_user_end, &raw const copy_user_failed),
        (load_user as *const u8, &raw const load_user_end, &raw const load_user_failed),
    ];
    routines.iter().find(|r| (at(r.0)..at(r.1)).contains(&rip)).map(|r| at(r.2))
}
