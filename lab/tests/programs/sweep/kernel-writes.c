// The kernel writes for a program: copies are made as for the program's own stores, and EFAULT is the answer where
// the program itself could not have stored or read.
#include "sweep.h"

static long clock_to(void *at) { return answer(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, at)); }

static long child(char *at) {
  if (clock_to(at)) return 1;
  if (clock_to(at + 2 * PAGE - 8)) return 2;
  unsigned char *bytes = (unsigned char *)at + 2 * PAGE + 16;
  return resident(at, PAGE, bytes) || !(*bytes & 1) ? 3 : 0;
}

int main(void) {
  char *at = map(4 * PAGE, RW, PRIVATE);
  memset(at, 0x55, 3 * PAGE);
  check("a child", ended(CHILD(child(at))), 0);
  long changed = 0;
  for (size_t i = 0; i < 3 * PAGE; i++) changed += at[i] != 0x55;
  check("nothing of it is the parent's", changed, 0);
  check("to a page never touched", clock_to(at + 3 * PAGE), 0);
  check("across two pages", clock_to(at + PAGE - 8), 0);
  char *other = map(4 * PAGE, RW, PRIVATE);
  check("read-only", protect(other + PAGE, PAGE, PROT_READ), 0);
  check("without rights", protect(other + 2 * PAGE, PAGE, PROT_NONE), 0);
  check("to a read-only page", clock_to(other + PAGE), -EFAULT);
  check("half to a read-only page", clock_to(other + PAGE - 8), -EFAULT);
  check("to one without rights", clock_to(other + 2 * PAGE), -EFAULT);
  check("to a hole", unmap(other + 3 * PAGE, PAGE) || clock_to(other + 3 * PAGE) != -EFAULT, 0);
  check("to the kernel's half", clock_to((void *)(1UL << 63)), -EFAULT);
  check("mincore to a read-only page", resident(at, PAGE, other + PAGE), -EFAULT);
  check("write from no rights", answer(syscall(SYS_write, 1, other + 2 * PAGE, 1)), -EFAULT);
  check("write from a hole", answer(syscall(SYS_write, 1, other + 3 * PAGE, 1)), -EFAULT);
  check("an action from no rights", answer(syscall(SYS_rt_sigaction, SIGUSR1, other + 2 * PAGE, 0, 8)), -EFAULT);
  pid_t gone = CHILD(3);
  check("a status to a read-only page", answer(syscall(SYS_wait4, gone, other + PAGE, 0, 0)), -EFAULT);
  check("a read-only page", not_zero(other + PAGE, 1), 0);
  int *shared = (int *)map(PAGE, RW, SHARED);
  pid_t second = CHILD(4);
  check("which child", answer(syscall(SYS_wait4, second, shared, 0, 0)), second);
  check("its status", *shared, 4 << 8);
  return end();
}
