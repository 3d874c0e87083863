// si_code and si_addr of page faults, and what the context says of them.
#include "../../programs/sweep/sweep.h"
static void want(const char *n, long got, long what, void *addr, long err) {
  check(n, got, what);
  check("  its address", fault_address, (long)addr);
  check("  its error code", fault_error, err);
  check("  its trap", fault_trap, 14);
  check("  its cr2", fault_cr2, (long)addr);
}
int main(void) {
  expect_faults();
  char *p = map(6 * PAGE, RW, PRIVATE);
  munmap(p + PAGE, PAGE);
  p[2 * PAGE] = 0xc3;
  want("read of nothing", load(p + PAGE + 5), MAPERR, p + PAGE + 5, 4);
  want("write to nothing", store(p + PAGE + 4095, 1), MAPERR, p + PAGE + 4095, 6);
  want("null", load((char *)8), MAPERR, (void *)8, 4);
  mprotect(p + 2 * PAGE, PAGE, PROT_READ);
  want("write to a page that is read only", store(p + 2 * PAGE + 1, 1), ACCERR, p + 2 * PAGE + 1, 7);
  want("execute data that is there", fetch(p + 2 * PAGE), ACCERR, p + 2 * PAGE, 0x15);
  mprotect(p + 3 * PAGE, PAGE, PROT_READ);
  want("write to a read only page that is not there", store(p + 3 * PAGE, 1), ACCERR, p + 3 * PAGE, 6);
  want("execute data that is not there", fetch(p + 3 * PAGE), ACCERR, p + 3 * PAGE, 0x15);   // Linux maps the zero page first
  mprotect(p + 4 * PAGE, PAGE, PROT_NONE);
  want("read of no rights", load(p + 4 * PAGE), ACCERR, p + 4 * PAGE, 4);
  want("execute nothing", fetch(p + PAGE), MAPERR, p + PAGE, 0x14);
  p[5 * PAGE] = 0xc3;
  mprotect(p + 5 * PAGE, PAGE, PROT_NONE);
  long r = load(p + 5 * PAGE);
  check("no rights, with a page", r, ACCERR);
  say("error code there %#lx\n", fault_error);
  mprotect(p + 5 * PAGE, PAGE, PROT_READ | PROT_EXEC);
  check("execute with the right", fetch(p + 5 * PAGE), 0);
  check("write", store(p + 5 * PAGE, 1), ACCERR);
  // An access that straddles two pages is reported where it fails.
  trying = 1;
  if (sigsetjmp(refused, 0) == 0) { *(volatile long *)(p + PAGE - 3) = 1; fault_address = 0; }
  trying = 0;
  check("straddling write fails at the second page", fault_address, (long)(p + PAGE));
  check("nothing was written", p[PAGE - 3], 0);
  return end();
}
