// MADV_DONTNEED drops pages whatever the rights are; shared memory keeps its contents.
#include "sweep.h"

static void dropped(const char *what, int prot) {
  char *at = map(4 * PAGE, RW, PRIVATE);
  fill(at, 4, 1);
  say("-- %s\n", what);
  check("rights", protect(at, 3 * PAGE, prot), 0);
  check("DONTNEED", advise(at + PAGE, 2 * PAGE, MADV_DONTNEED), 0);
  check("rights again", protect(at, 4 * PAGE, RW), 0);
  check("not dropped", differ(at, 1, 1), 0);
  check("dropped", not_zero(at + PAGE, 2), 0);
  check("the last", differ(at + 3 * PAGE, 1, 4), 0);
  fill(at, 4, 9);
  check("written again", differ(at, 4, 9), 0);
}

int main(void) {
  expect_faults();
  dropped("read-only", PROT_READ);
  dropped("none", PROT_NONE);
  dropped("read and execute", PROT_READ | PROT_EXEC);
  dropped("write-only", PROT_WRITE);
  char *shared = map(2 * PAGE, RW, SHARED);
  fill(shared, 2, 1);
  check("shared, read-only", protect(shared, 2 * PAGE, PROT_READ), 0);
  check("shared, DONTNEED", advise(shared, 2 * PAGE, MADV_DONTNEED), 0);
  check("shared memory keeps its contents", differ(shared, 2, 1), 0);
  char *at = map(4 * PAGE, RW, PRIVATE);
  fill(at, 4, 1);
  check("a child's drop", ended(CHILD(advise(at, 4 * PAGE, MADV_DONTNEED) || not_zero(at, 4))), 0);
  check("is not its parent's", differ(at, 4, 1), 0);
  check("across two rights", protect(at + 2 * PAGE, 2 * PAGE, PROT_NONE), 0);
  check("DONTNEED of both", advise(at, 4 * PAGE, MADV_DONTNEED), 0);
  check("rights", protect(at, 4 * PAGE, RW), 0);
  check("both dropped", not_zero(at, 4), 0);
  return end();
}
