// A heap that shrinks loses its pages; when it grows again they are zeros.
#include "sweep.h"

static long brk_to(char *at) { return syscall(SYS_brk, at); }

int main(void) {
  expect_faults();
  char *base = (char *)((brk_to(0) + PAGE - 1) & ~(PAGE - 1));
  check("grows", brk_to(base + 16 * PAGE), (long)(base + 16 * PAGE));
  check("zeros", not_zero(base, 16), 0);
  fill(base, 16, 1);
  check("shrinks", brk_to(base + 4 * PAGE), (long)(base + 4 * PAGE));
  check("the rest is gone", load(base + 4 * PAGE), MAPERR);
  check("all of it", load(base + 15 * PAGE), MAPERR);
  check("grows again", brk_to(base + 16 * PAGE), (long)(base + 16 * PAGE));
  check("what stayed", differ(base, 4, 1), 0);
  check("zeros again", not_zero(base + 4 * PAGE, 12), 0);
  base[4 * PAGE + 100] = 5;
  base[4 * PAGE + 3000] = 6;
  check("into a page", brk_to(base + 4 * PAGE + 1000), (long)(base + 4 * PAGE + 1000));
  check("the page stays whole", base[4 * PAGE + 3000], 6);
  check("the next is gone", load(base + 5 * PAGE), MAPERR);
  check("within the page", brk_to(base + 4 * PAGE + 4000), (long)(base + 4 * PAGE + 4000));
  check("its bytes", base[4 * PAGE + 100] + base[4 * PAGE + 3000], 11);
  check("large", brk_to(base + (64UL << 20)), (long)(base + (64UL << 20)));
  base[(64UL << 20) - 1] = 1;
  check("large, shrinks", brk_to(base + (8UL << 20) + PAGE), (long)(base + (8UL << 20) + PAGE));
  check("large, gone", load(base + (64UL << 20) - 1), MAPERR);
  check("in a child too", ended(CHILD(load(base + (9UL << 20)) != MAPERR || brk_to(base) != (long)base)), 0);
  check("not the parent's", differ(base, 4, 1), 0);
  return end();
}
