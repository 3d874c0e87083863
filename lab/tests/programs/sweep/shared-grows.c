// Shared anonymous memory made larger by mremap: accepted, and what lies beyond the object is SIGBUS.
#include "sweep.h"

int main(void) {
  expect_faults();
  char *at = map(2 * PAGE, RW, SHARED);
  fill(at, 2, 1);
  long to = remap(at, 2 * PAGE, 4 * PAGE, MREMAP_MAYMOVE, 0);
  check("it grows", to > 0, 1);
  at = (char *)to;
  check("contents", differ(at, 2, 1), 0);
  check("a load beyond the object", load(at + 2 * PAGE), ADRERR);
  check("its address", fault_address, (long)(at + 2 * PAGE));
  check("a store beyond it", store(at + 3 * PAGE, 1), ADRERR);
  check("a store within", store(at + PAGE, 9), 0);
  check("a child", ended(CHILD(load(at + 2 * PAGE) != ADRERR || at[PAGE] != 9 || (at[0] = 5) != 5)), 0);
  check("what it stored", at[0], 5);
  check("it shrinks", remap(at, 4 * PAGE, PAGE, 0, 0), (long)at);
  check("one page", at[0], 5);
  check("the rest is gone", load(at + PAGE), MAPERR);
  return end();
}
