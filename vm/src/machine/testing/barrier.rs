//! The barrier of test machines: a full fence on every CPU.

/// loom has no asymmetric barrier: `light_fence` is a full fence there, and this is its partner.
#[cfg(loom)]
pub(super) fn barrier() {
    crate::sync::atomic::fence::<super::TestCpu>(crate::sync::atomic::Ordering::SeqCst);
}

/// Linux's `membarrier(PRIVATE_EXPEDITED)`: a full fence on every CPU that runs a thread of this process.
#[cfg(all(not(loom), target_os = "linux", target_arch = "x86_64"))]
pub(super) fn barrier() {
    let call = |command: usize| {
        let mut result = 324usize;
        // SAFETY: the system call reads and writes no memory of ours; the kernel clobbers rcx and r11.
        unsafe {
            core::arch::asm!("syscall", inout("rax") result, in("rdi") command, in("rsi") 0, in("rdx") 0,
                out("rcx") _, out("r11") _)
        };
        result
    };
    let (expedited, register) = (8, 16);
    if call(expedited) != 0 {
        assert!(call(register) == 0 && call(expedited) == 0, "this host has no membarrier");
    }
}

/// A host without membarrier: tests that need an asymmetric barrier must not run.
#[cfg(all(not(loom), not(all(target_os = "linux", target_arch = "x86_64"))))]
pub(super) fn barrier() {
    unimplemented!("no asymmetric barrier for tests on this host");
}
