// The middle of shared memory is unmapped: each part goes on to show its own pages of the object.
#include "sweep.h"

static long sees(char *at, int from) { return differ(at, 3, from) + differ(at + 6 * PAGE, 6, from + 6); }

static long child(char *at) {
  if (advise(at, 3 * PAGE, MADV_DONTNEED) || advise(at + 6 * PAGE, 6 * PAGE, MADV_DONTNEED)) return 1;
  if (sees(at, 1)) return 2;
  fill(at, 3, 40);
  fill(at + 6 * PAGE, 6, 46);
  return 0;
}

int main(void) {
  expect_faults();
  char *at = map(12 * PAGE, RW, SHARED);
  fill(at, 12, 1);
  check("the middle goes", unmap(at + 3 * PAGE, 3 * PAGE), 0);
  check("it is gone", load(at + 4 * PAGE), MAPERR);
  check("both parts", sees(at, 1), 0);
  check("entries dropped", advise(at + 6 * PAGE, 6 * PAGE, MADV_DONTNEED), 0);
  check("both parts again", sees(at, 1), 0);
  check("a child", ended(CHILD(child(at))), 0);
  check("what it stored", sees(at, 40), 0);
  check("the middle of the right part", protect(at + 8 * PAGE, 2 * PAGE, PROT_READ), 0);
  check("dropped", advise(at + 8 * PAGE, 2 * PAGE, MADV_DONTNEED), 0);
  check("its pages", differ(at + 8 * PAGE, 2, 48), 0);
  check("rights back", protect(at + 8 * PAGE, 2 * PAGE, RW), 0);
  check("private memory in the gap", map_at(at + 3 * PAGE, 3 * PAGE, RW, PRIVATE | MAP_FIXED), (long)(at + 3 * PAGE));
  fill(at + 3 * PAGE, 3, 90);
  check("all parts", sees(at, 40) + differ(at + 3 * PAGE, 3, 90), 0);
  check("the left goes", unmap(at, 4 * PAGE), 0);
  check("the right", differ(at + 6 * PAGE, 6, 46) + differ(at + 4 * PAGE, 2, 91), 0);
  return end();
}
