// mprotect over a hole: ENOMEM, pages before the hole have the new rights, those behind it the old.
#include "sweep.h"

int main(void) {
  expect_faults();
  char *at = map(6 * PAGE, RW, PRIVATE);
  fill(at, 6, 1);
  check("a hole", unmap(at + 2 * PAGE, PAGE), 0);
  check("over it", protect(at, 6 * PAGE, PROT_READ), -ENOMEM);
  check("before it, present", store(at, 1), ACCERR);
  check("just before it", store(at + PAGE, 1), ACCERR);
  check("behind it", store(at + 3 * PAGE, 4), 0);
  check("the last", store(at + 5 * PAGE, 6), 0);
  check("contents", differ(at, 2, 1) + differ(at + 3 * PAGE, 3, 4), 0);
  check("from the hole on", protect(at + 2 * PAGE, 3 * PAGE, PROT_NONE), -ENOMEM);
  check("nothing changed", load(at + 3 * PAGE), 0);
  check("beyond the end", protect(at + 5 * PAGE, 1UL << 46, PROT_NONE), -ENOMEM);
  check("what there is changed", load(at + 5 * PAGE), ACCERR);
  check("no length, in a hole", protect(at + 2 * PAGE, 0, PROT_READ), 0);
  check("no length, unknown rights", protect(at, 0, 1 << 20), 0);
  check("inside a page", protect(at + 1, PAGE, PROT_READ), -EINVAL);
  check("unknown rights", protect(at, PAGE, 1 << 20), -EINVAL);
  check("a length near 2^64", protect(at, -PAGE + 1, PROT_READ), -ENOMEM);
  check("a part of a page", protect(at, 1, RW), 0);
  check("is the page", store(at + 4000, 1), 0);
  check("not the next", store(at + PAGE, 1), ACCERR);
  return end();
}
