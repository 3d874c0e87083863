// MADV_DONTFORK and MADV_WIPEONFORK; advice is a number, not a set of flags.
#include "sweep.h"

static long without(char *at) {
  if (load(at + PAGE) != MAPERR || load(at + 2 * PAGE) != MAPERR) return 1;
  if (at[0] != 1 || at[3 * PAGE] != 4) return 2;
  return map_at(at + PAGE, PAGE, RW, PRIVATE | MAP_FIXED_NOREPLACE) == (long)(at + PAGE) ? 0 : 3;
}

static long wiped(char *at, int depth) {
  if (not_zero(at + PAGE, 2) || at[0] != 1 || at[3 * PAGE] != 4) return 1;
  fill(at + PAGE, 2, 60);
  return depth ? ended(CHILD(wiped(at, depth - 1))) : 0;
}

int main(void) {
  expect_faults();
  char *at = map(4 * PAGE, RW, PRIVATE), *shared = map(2 * PAGE, RW, SHARED);
  fill(at, 4, 1);
  check("DONTFORK", advise(at + PAGE, 2 * PAGE, MADV_DONTFORK), 0);
  check("a child without it", ended(CHILD(without(at))), 0);
  check("the parent has it", differ(at, 4, 1), 0);
  check("DOFORK", advise(at + PAGE, 2 * PAGE, MADV_DOFORK), 0);
  check("a child with it", ended(CHILD(differ(at, 4, 1))), 0);
  check("WIPEONFORK", advise(at + PAGE, 2 * PAGE, MADV_WIPEONFORK), 0);
  check("a child, and its child", ended(CHILD(wiped(at, 1))), 0);
  check("the parent's contents", differ(at, 4, 1), 0);
  check("KEEPONFORK", advise(at + PAGE, 2 * PAGE, MADV_KEEPONFORK), 0);
  check("a child keeps it", ended(CHILD(differ(at, 4, 1))), 0);
  check("shared memory is not wiped", advise(shared, 2 * PAGE, MADV_WIPEONFORK), -EINVAL);
  check("but left out", advise(shared, PAGE, MADV_DONTFORK), 0);
  check("by a child", ended(CHILD(load(shared) != MAPERR || load(shared + PAGE))), 0);
  check("2, 3 and 10 together are 11", advise(at, PAGE, MADV_SEQUENTIAL | MADV_WILLNEED | MADV_DONTFORK), 0);
  check("which is DOFORK", ended(CHILD(load(at))), 0);
  int none[] = {5, 6, 7, 26, 50, 99, 104, 1000, -1, 1 << 30};
  for (size_t i = 0; i < sizeof none / sizeof *none; i++) check("no advice", advise(at, PAGE, none[i]), -EINVAL);
  return end();
}
