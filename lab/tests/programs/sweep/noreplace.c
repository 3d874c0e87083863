// MAP_FIXED_NOREPLACE: the exact place, or EEXIST for any overlap.
#include "sweep.h"

int main(void) {
  char *at = map(4 * PAGE, RW, PRIVATE);
  fill(at, 4, 1);
  check("the last page goes", unmap(at + 3 * PAGE, PAGE), 0);
  int flags = PRIVATE | MAP_FIXED_NOREPLACE;
  check("over a mapping", map_at(at, PAGE, PROT_NONE, flags), -EEXIST);
  check("over the end of one", map_at(at + 2 * PAGE, 2 * PAGE, PROT_NONE, flags), -EEXIST);
  check("with MAP_FIXED", map_at(at, PAGE, PROT_NONE, flags | MAP_FIXED), -EEXIST);
  check("over all of it and more", map_at(at - 64 * PAGE, 1 << 20, PROT_NONE, flags), -EEXIST);
  check("inside a page", map_at(at + 3 * PAGE + 1, PAGE, PROT_NONE, flags), -EINVAL);
  check("what was there", differ(at, 3, 1), 0);
  check("in the hole", map_at(at + 3 * PAGE, PAGE, RW, flags), (long)(at + 3 * PAGE));
  check("zeros", not_zero(at + 3 * PAGE, 1), 0);
  check("the hole is filled", map_at(at + 3 * PAGE, PAGE, RW, flags), -EEXIST);
  check("no length", map_at(at, 0, RW, flags), -EINVAL);
  return end();
}
