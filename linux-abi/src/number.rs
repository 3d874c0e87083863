//! Numbers of system calls on x86-64.

use linux_raw_sys::general as raw;

macro_rules! numbers {
    ($($name:ident $raw:ident,)+) => {
        $(#[doc = concat!("`", stringify!($raw), "`.")] pub const $name: u64 = raw::$raw as u64;)+
    };
}

numbers! {
    WRITE __NR_write,
    MMAP __NR_mmap,
    MPROTECT __NR_mprotect,
    MUNMAP __NR_munmap,
    BRK __NR_brk,
    RT_SIGACTION __NR_rt_sigaction,
    RT_SIGPROCMASK __NR_rt_sigprocmask,
    RT_SIGRETURN __NR_rt_sigreturn,
    SCHED_YIELD __NR_sched_yield,
    MREMAP __NR_mremap,
    MSYNC __NR_msync,
    MINCORE __NR_mincore,
    MADVISE __NR_madvise,
    SHMAT __NR_shmat,
    NANOSLEEP __NR_nanosleep,
    GETPID __NR_getpid,
    CLONE __NR_clone,
    FORK __NR_fork,
    VFORK __NR_vfork,
    EXECVE __NR_execve,
    EXIT __NR_exit,
    WAIT4 __NR_wait4,
    SHMDT __NR_shmdt,
    GETPPID __NR_getppid,
    PERSONALITY __NR_personality,
    MLOCK __NR_mlock,
    MUNLOCK __NR_munlock,
    MLOCKALL __NR_mlockall,
    MUNLOCKALL __NR_munlockall,
    PRCTL __NR_prctl,
    ARCH_PRCTL __NR_arch_prctl,
    GETTID __NR_gettid,
    FUTEX __NR_futex,
    SCHED_SETAFFINITY __NR_sched_setaffinity,
    SCHED_GETAFFINITY __NR_sched_getaffinity,
    REMAP_FILE_PAGES __NR_remap_file_pages,
    SET_TID_ADDRESS __NR_set_tid_address,
    CLOCK_GETTIME __NR_clock_gettime,
    EXIT_GROUP __NR_exit_group,
    MBIND __NR_mbind,
    UNSHARE __NR_unshare,
    EXECVEAT __NR_execveat,
    USERFAULTFD __NR_userfaultfd,
    MLOCK2 __NR_mlock2,
    PKEY_MPROTECT __NR_pkey_mprotect,
    PKEY_ALLOC __NR_pkey_alloc,
    PKEY_FREE __NR_pkey_free,
    CLONE3 __NR_clone3,
    PROCESS_MADVISE __NR_process_madvise,
    PROCESS_MRELEASE __NR_process_mrelease,
    MAP_SHADOW_STACK __NR_map_shadow_stack,
    MSEAL __NR_mseal,
}
