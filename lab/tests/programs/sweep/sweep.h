// What the programs of the sweep share, and those in ../../record/programs: lines that begin with PASS, FAIL or
// LACKS, calls that return Linux's answer as a number, and accesses that may be refused. docs/results/sweep.md
// says where each program of the sweep comes from.
//
// gcc -O1 -static -pthread -o NAME NAME.c
#ifndef SWEEP_H
#define SWEEP_H
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

#define PAGE 4096UL
#define HUGE (2UL << 20)
#define RW (PROT_READ | PROT_WRITE)
#define PRIVATE (MAP_PRIVATE | MAP_ANONYMOUS)
#define SHARED (MAP_SHARED | MAP_ANONYMOUS)
// What an access came to: 0, or the signal and its code.
#define MAPERR (SIGSEGV * 100 + SEGV_MAPERR)
#define ACCERR (SIGSEGV * 100 + SEGV_ACCERR)
#define ADRERR (SIGBUS * 100 + BUS_ADRERR)

static int failed;

static void say(const char *format, ...) {
  char line[400];
  va_list words;
  va_start(words, format);
  int length = vsnprintf(line, sizeof line, format, words);
  va_end(words);
  if (write(1, line, length) != length) _exit(99);
}

// Says whether a number is what Linux gives.
static void check(const char *what, long got, long want) {
  if (got == want) {
    say("PASS %s\n", what);
  } else {
    say("FAIL %s: %ld (%#lx) instead of %ld (%#lx)\n", what, got, got, want, want);
    failed++;
  }
}

static int end(void) { return failed ? 1 : 0; }

// A call's answer, or its error as a negative number.
static inline long answer(long returned) { return returned == -1 ? -errno : returned; }
static inline long map_at(void *at, size_t len, int prot, int flags) {
  return answer(syscall(SYS_mmap, at, len, prot, flags, -1, 0));
}
static inline long unmap(void *at, size_t len) { return answer(syscall(SYS_munmap, at, len)); }
static inline long protect(void *at, size_t len, int prot) { return answer(syscall(SYS_mprotect, at, len, prot)); }
static inline long advise(void *at, size_t len, int advice) { return answer(syscall(SYS_madvise, at, len, advice)); }
static inline long resident(void *at, size_t len, void *bytes) { return answer(syscall(SYS_mincore, at, len, bytes)); }

// Memory that must be had.
static char *map(size_t len, int prot, int flags) {
  long at = map_at(0, len, prot, flags);
  if (at < 0 && at > -4096) {
    say("FAIL mmap of %zu bytes: %ld\n", len, at);
    _exit(98);
  }
  return (char *)at;
}

// Memory at a boundary of 2 MiB, in a reservation that is larger by 2 MiB on each side.
static inline char *map_aligned(size_t len, int prot, int flags) {
  char *around = map(len + 2 * HUGE, PROT_NONE, PRIVATE | MAP_NORESERVE);
  char *at = (char *)(((uintptr_t)around + HUGE) & ~(HUGE - 1));
  if (map_at(at, len, prot, flags | MAP_FIXED) != (long)at) {
    say("FAIL mmap at a boundary\n");
    _exit(98);
  }
  return at;
}

// mremap, which not every kernel has.
static inline long remap(void *at, size_t old, size_t new, int flags, void *to) {
  long moved = answer(syscall(SYS_mremap, at, old, new, flags, to));
  if (moved == -ENOSYS) {
    say("LACKS mremap\n");
    _exit(0);
  }
  return moved;
}

// Accesses that may be refused. One thread at a time.
static sigjmp_buf refused;
static volatile sig_atomic_t trying;
static volatile long fault_kind, fault_address;
// What the context says of the last fault.
static volatile long fault_error, fault_trap, fault_cr2;

static void on_fault(int signal, siginfo_t *info, void *context) {
  const greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
  if (!trying) {
    say("FAIL signal %d, code %d, address %p, where none may come\n", signal, info->si_code, info->si_addr);
    _exit(97);
  }
  fault_kind = signal * 100 + info->si_code;
  fault_address = (long)info->si_addr;
  fault_error = registers[REG_ERR];
  fault_trap = registers[REG_TRAPNO];
  fault_cr2 = registers[REG_CR2];
  siglongjmp(refused, 1);
}

static inline void expect_faults(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGSEGV, &action, 0);
  sigaction(SIGBUS, &action, 0);
}

#define TRIED(access)                                                                                          \
  trying = 1;                                                                                                  \
  long came_to = 0;                                                                                            \
  if (sigsetjmp(refused, 0) == 0) {                                                                            \
    access;                                                                                                    \
  } else {                                                                                                     \
    came_to = fault_kind;                                                                                      \
  }                                                                                                            \
  trying = 0;                                                                                                  \
  return came_to;
static __attribute__((noinline, unused)) long load(const volatile char *at) { TRIED((void)*at) }
static __attribute__((noinline, unused)) long store(volatile char *at, char byte) { TRIED(*at = byte) }
static __attribute__((noinline, unused)) long fetch(const volatile char *at) { TRIED(((void (*)(void))at)()) }

// The first byte of each page: set to `from` and up, or looked at. Returns how many pages differ.
static inline void fill(volatile char *at, size_t pages, int from) {
  for (size_t i = 0; i < pages; i++) at[i * PAGE] = (char)(from + i);
}
static inline long differ(const volatile char *at, size_t pages, int from) {
  long count = 0;
  for (size_t i = 0; i < pages; i++) count += at[i * PAGE] != (char)(from + i);
  return count;
}
static inline long not_zero(const volatile char *at, size_t pages) {
  long count = 0;
  for (size_t i = 0; i < pages; i++) count += at[i * PAGE] != 0;
  return count;
}

// Processes. A child ends with its value; a signal that ended it counts as 1000 and more.
#define CHILD(value) ({ pid_t child_ = fork(); if (child_ == 0) _exit(value); child_; })
static inline long ended(pid_t child) {
  int status = 0;
  if (child < 0) return -1;
  if (waitpid(child, &status, 0) != child) return -errno;
  return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

// Waits until a number is at least `least`.
static inline void wait_until(atomic_int *number, int least) {
  while (atomic_load(number) < least) sched_yield();
}
#endif
