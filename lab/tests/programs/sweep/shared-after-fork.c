// Shared anonymous memory: parent and child see each other's stores, to pages touched before the fork and after.
#include "sweep.h"

static long grandchild(char *at) {
  if (differ(at, 8, 30)) return 1;
  at[7 * PAGE] = 77;
  return 0;
}

static long child(char *at, atomic_int *turn) {
  if (differ(at, 4, 1) || not_zero(at + 4 * PAGE, 4)) return 1;
  fill(at, 8, 30);
  atomic_store(turn, 1);
  wait_until(turn, 2);
  if (differ(at, 2, 90)) return 2;
  fill(at, 2, 30);
  if (ended(CHILD(grandchild(at)))) return 3;
  if (at[7 * PAGE] != 77) return 4;
  if (protect(at, 8 * PAGE, PROT_READ)) return 5;
  return store(at, 5) == ACCERR ? 0 : 6;
}

int main(void) {
  expect_faults();
  char *at = map(8 * PAGE, RW, SHARED);
  atomic_int *turn = (atomic_int *)map(PAGE, RW, SHARED);
  fill(at, 4, 1);
  check("a page that is read", not_zero(at + 4 * PAGE, 1), 0);
  pid_t first = CHILD(child(at, turn));
  wait_until(turn, 1);
  check("what the child stored", differ(at, 8, 30), 0);
  fill(at, 2, 90);
  atomic_store(turn, 2);
  check("the child", ended(first), 0);
  check("what the grandchild stored", at[7 * PAGE], 77);
  check("a child's rights are its own", store(at, 30), 0);
  check("a child unmaps", ended(CHILD(unmap(at, 8 * PAGE))), 0);
  check("the parent has it", differ(at, 7, 30), 0);
  check("a child drops", ended(CHILD(advise(at, 8 * PAGE, MADV_DONTNEED) || differ(at, 7, 30))), 0);
  check("a child maps over it", ended(CHILD(map_at(at, 2 * PAGE, RW, PRIVATE | MAP_FIXED) != (long)at || not_zero(at, 2))), 0);
  check("the parent still has it", differ(at, 7, 30), 0);
  return end();
}
