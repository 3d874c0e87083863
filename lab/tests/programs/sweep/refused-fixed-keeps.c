// A MAP_FIXED that is refused leaves what was there.
#include "sweep.h"

int main(void) {
  expect_faults();
  char *low = (char *)(1UL << 40);
  check("a place", map_at(low, 8 * PAGE, RW, PRIVATE | MAP_FIXED), (long)low);
  fill(low, 8, 1);
  int fixed = MAP_ANONYMOUS | MAP_FIXED;
  check("neither shared nor private", map_at(low + PAGE, PAGE, RW, fixed), -EINVAL);
  check("no length", map_at(low + PAGE, 0, RW, PRIVATE | MAP_FIXED), -EINVAL);
  check("inside a page", map_at(low + 1, PAGE, RW, PRIVATE | MAP_FIXED), -EINVAL);
  check("a file that is not open", map_at(low + PAGE, PAGE, RW, MAP_PRIVATE | MAP_FIXED), -EBADF);
  check("a length near 2^64", map_at(low + PAGE, -PAGE + 1, RW, PRIVATE | MAP_FIXED), -ENOMEM);
  check("past the end of user space", map_at(low + PAGE, 1UL << 47, RW, PRIVATE | MAP_FIXED), -ENOMEM);
  check("more than the machine has", map_at(low + 2 * PAGE, 64UL << 40, RW, PRIVATE | MAP_FIXED), -ENOMEM);
  check("contents", differ(low, 8, 1), 0);
  fill(low, 8, 9);
  check("written again", differ(low, 8, 9), 0);
  check("nothing beyond", load(low + 8 * PAGE), MAPERR);
  return end();
}
