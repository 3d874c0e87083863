// SEGV_ACCERR wherever a mapping is, page present or not; SEGV_MAPERR where none is.
#include "sweep.h"

static void each(const char *whose, char *at) {
  say("-- %s\n", whose);
  check("present, then without rights: load", load(at), ACCERR);
  check("present, then without rights: store", store(at, 1), ACCERR);
  check("its address", fault_address, (long)at);
  check("never touched: load", load(at + PAGE), ACCERR);
  check("never touched: store", store(at + PAGE + 77, 1), ACCERR);
  check("its address, to the byte", fault_address, (long)(at + PAGE + 77));
  check("dropped, without rights: load", load(at + 2 * PAGE), ACCERR);
  check("read-only, present: store", store(at + 3 * PAGE, 1), ACCERR);
  check("read-only, never touched: store", store(at + 4 * PAGE, 1), ACCERR);
  check("no right to execute, present: fetch", fetch(at + 3 * PAGE), ACCERR);
  check("no right to execute, never touched: fetch", fetch(at + 5 * PAGE), ACCERR);
  check("unmapped: load", load(at + 6 * PAGE), MAPERR);
  check("unmapped: store", store(at + 6 * PAGE, 1), MAPERR);
  check("unmapped: fetch", fetch(at + 6 * PAGE), MAPERR);
  check("behind the hole", load(at + 7 * PAGE), 0);
}

int main(void) {
  expect_faults();
  char *at = map(8 * PAGE, RW, PRIVATE);
  fill(at, 1, 1);
  fill(at + 2 * PAGE, 2, 1);
  check("no rights", protect(at, 3 * PAGE, PROT_NONE), 0);
  check("dropped", advise(at + 2 * PAGE, PAGE, MADV_DONTNEED), 0);
  check("read-only", protect(at + 3 * PAGE, 2 * PAGE, PROT_READ), 0);
  check("unmapped", unmap(at + 6 * PAGE, PAGE), 0);
  each("the first process", at);
  pid_t child = fork();
  if (child == 0) {
    failed = 0;
    each("its child", at);
    _exit(end());
  }
  check("the child", ended(child), 0);
  char *shared = map(2 * PAGE, RW, SHARED);
  fill(shared, 1, 1);
  check("shared, no rights", protect(shared, 2 * PAGE, PROT_NONE), 0);
  check("shared, present", load(shared), ACCERR);
  check("shared, never touched", store(shared + PAGE, 1), ACCERR);
  return end();
}
