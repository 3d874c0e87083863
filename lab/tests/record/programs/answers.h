// Common to the programs that check answers: lines that begin with PASS or FAIL, and a probe for faults.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
#define PG 4096UL
#define HP (2UL << 20)
#define RW (PROT_READ | PROT_WRITE)
#define AP (MAP_ANONYMOUS | MAP_PRIVATE)
#define AS (MAP_ANONYMOUS | MAP_SHARED)
static int fails;
static void say(const char *f, ...) {
  char b[600];
  va_list l;
  va_start(l, f);
  int n = vsnprintf(b, sizeof b, f, l);
  va_end(l);
  if (write(1, b, n) != n) _exit(99);
}
#define IS(name, got, want)                                                        \
  do {                                                                             \
    long g_ = (long)(got), w_ = (long)(want);                                      \
    if (g_ == w_) say("PASS %s = %ld\n", name, g_);                                \
    else { say("FAIL %s: got %ld (%#lx), want %ld (%#lx)\n", name, g_, g_, w_, w_); fails++; } \
  } while (0)
#define OK(name, cond) IS(name, !!(cond), 1)
static inline int done(void) { say("%s %d\n", fails ? "FAIL total" : "PASS all", fails); return fails ? 1 : 0; }
static inline long er(long v) { return v == -1 ? -errno : v; }
static inline char *anon(size_t n, int prot, int fl) {
  char *p = mmap(0, n, prot, fl, -1, 0);
  if (p == MAP_FAILED) { say("FAIL mmap: %d\n", errno); _exit(98); }
  return p;
}
// Faults: the signal, code, address and error code of the last.
static __thread sigjmp_buf jb;
static __thread volatile int in_probe;
static __thread volatile long f_sig, f_code, f_addr, f_err, f_trap, f_cr2;
static inline void on_fault(int s, siginfo_t *i, void *c) {
  ucontext_t *u = c;
  if (!in_probe) { say("FAIL signal %d code %d at %p outside of a probe\n", s, i->si_code, i->si_addr); _exit(97); }
  f_sig = s; f_code = i->si_code; f_addr = (long)i->si_addr;
  f_err = u->uc_mcontext.gregs[REG_ERR]; f_trap = u->uc_mcontext.gregs[REG_TRAPNO]; f_cr2 = u->uc_mcontext.gregs[REG_CR2];
  siglongjmp(jb, 1);
}
static inline void catch_faults(void) {
  struct sigaction a;
  memset(&a, 0, sizeof a);
  a.sa_sigaction = on_fault;
  a.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &a, 0);
  sigaction(SIGBUS, &a, 0);
}
// 0: no fault; else signal * 1000 + code.
static __attribute__((noinline, unused)) long try_read(const volatile char *p) {
  in_probe = 1;
  long r = 0;
  if (sigsetjmp(jb, 1) == 0) { (void)*p; } else r = f_sig * 1000 + f_code;
  in_probe = 0;
  return r;
}
static __attribute__((noinline, unused)) long try_write(volatile char *p, char v) {
  in_probe = 1;
  long r = 0;
  if (sigsetjmp(jb, 1) == 0) { *p = v; } else r = f_sig * 1000 + f_code;
  in_probe = 0;
  return r;
}
#define MAPERR (SIGSEGV * 1000 + 1)
#define ACCERR (SIGSEGV * 1000 + 2)
// A child that runs f and exits with its value.
#define CHILD(expr) ({ pid_t p_ = fork(); if (p_ == 0) { _exit(expr); } p_; })
// Exit code, or 1000 + signal.
static inline long reap(pid_t p) {
  int st = 0;
  if (waitpid(p, &st, 0) != p) return -errno;
  return WIFSIGNALED(st) ? 1000 + WTERMSIG(st) : WEXITSTATUS(st);
}
