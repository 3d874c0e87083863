// mremap's refusals change nothing.
#include "sweep.h"

int main(void) {
  expect_faults();
  char *at = map(8 * PAGE, RW, PRIVATE);
  char *place = map(16 * PAGE, PROT_NONE, PRIVATE);
  fill(at, 8, 1);
  check("another mapping", protect(at + 4 * PAGE, PAGE, PROT_READ), 0);
  check("a hole", unmap(at + 6 * PAGE, PAGE), 0);
  int may = MREMAP_MAYMOVE, fixed = MREMAP_MAYMOVE | MREMAP_FIXED;
  check("inside a page", remap(at + 1, PAGE, 2 * PAGE, may, 0), -EINVAL);
  check("to no length", remap(at, PAGE, 0, may, 0), -EINVAL);
  check("unknown flags", remap(at, PAGE, 2 * PAGE, 64, 0), -EINVAL);
  check("fixed without leave to move", remap(at, PAGE, PAGE, MREMAP_FIXED, place), -EINVAL);
  check("to inside a page", remap(at, PAGE, PAGE, fixed, place + 1), -EINVAL);
  check("onto itself", remap(at, 2 * PAGE, 2 * PAGE, fixed, at + PAGE), -EINVAL);
  check("no room, may not move", remap(at, 4 * PAGE, 5 * PAGE, 0, 0), -ENOMEM);
  check("of a hole", remap(at + 6 * PAGE, PAGE, 2 * PAGE, may, 0), -EFAULT);
  check("of more than the mapping", remap(at, 5 * PAGE, 6 * PAGE, may, 0), -EFAULT);
  check("of private memory, old length 0", remap(at, 0, PAGE, may, 0), -EINVAL);
  check("contents", differ(at, 6, 1) + differ(at + 7 * PAGE, 1, 8), 0);
  check("a place", load(place), ACCERR);
  check("the same length", remap(at, 4 * PAGE, 4 * PAGE, 0, 0), (long)at);
  check("shorter", remap(at, 4 * PAGE, 2 * PAGE, 0, 0), (long)at);
  check("the rest is gone", load(at + 2 * PAGE), MAPERR);
  check("longer again", remap(at, 2 * PAGE, 4 * PAGE, 0, 0), (long)at);
  check("zeros", not_zero(at + 2 * PAGE, 2), 0);
  check("fixed", remap(at, 4 * PAGE, 6 * PAGE, fixed, place + PAGE), (long)(place + PAGE));
  check("moved", differ(place + PAGE, 2, 1) + not_zero(place + 3 * PAGE, 4), 0);
  check("the old place", load(at), MAPERR);
  check("before it", load(place), ACCERR);
  check("behind it", load(place + 7 * PAGE), ACCERR);
  char *shared = map(2 * PAGE, RW, SHARED);
  fill(shared, 2, 1);
  long twice = remap(shared, 0, 2 * PAGE, may, 0);
  check("shared memory, old length 0", twice > 0 && twice != (long)shared, 1);
  fill((char *)twice, 2, 50);
  check("shows the same object", differ(shared, 2, 50), 0);
  return end();
}
