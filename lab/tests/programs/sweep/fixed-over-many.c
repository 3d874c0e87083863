// MAP_FIXED over several mappings and holes replaces the whole range, and what lies beside it stays.
#include "sweep.h"

int main(void) {
  expect_faults();
  char *at = map(12 * PAGE, RW, PRIVATE);
  fill(at, 12, 1);
  for (int page = 1; page < 11; page += 2) check("another mapping", protect(at + page * PAGE, PAGE, PROT_READ), 0);
  check("a hole", unmap(at + 4 * PAGE, PAGE), 0);
  check("a hole before it", unmap(at + 6 * PAGE, 2 * PAGE), 0);
  check("over pages 2 to 9", map_at(at + 2 * PAGE, 8 * PAGE, RW, PRIVATE | MAP_FIXED), (long)(at + 2 * PAGE));
  check("zeros", not_zero(at + 2 * PAGE, 8), 0);
  fill(at + 2 * PAGE, 8, 40);
  check("written", differ(at + 2 * PAGE, 8, 40), 0);
  check("below it", differ(at, 2, 1), 0);
  check("above it", differ(at + 10 * PAGE, 2, 11), 0);
  check("rights below", store(at + PAGE, 1), 0 + ACCERR);
  check("rights above", store(at + 11 * PAGE, 12), 0);
  char *other = map(4 * PAGE, RW, SHARED);
  check("shared memory over both ends", map_at(at + PAGE, 10 * PAGE, RW, SHARED | MAP_FIXED), (long)(at + PAGE));
  check("zeros again", not_zero(at + PAGE, 10), 0);
  check("the first page", differ(at, 1, 1), 0);
  check("the last page", differ(at + 11 * PAGE, 1, 12), 0);
  check("none over parts of two", map_at(other, 2 * PAGE, PROT_NONE, PRIVATE | MAP_FIXED), (long)other);
  check("no rights", load(other + PAGE), ACCERR);
  check("the rest", load(other + 2 * PAGE), 0);
  return end();
}
