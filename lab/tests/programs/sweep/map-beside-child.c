// A parent unmaps and maps the same place again, while a child that has the old memory looks at it and ends.
#include "sweep.h"

#define ROUNDS 60
#define PAGES 16

int main(void) {
  atomic_int *turn = (atomic_int *)map(PAGE, RW, SHARED);
  long wrong_child = 0, wrong_zero = 0, wrong_parent = 0;
  char *at = map(PAGES * PAGE, RW, PRIVATE);
  for (int round = 0; round < ROUNDS; round++) {
    fill(at, PAGES, round);
    atomic_store(turn, 0);
    pid_t child = fork();
    if (child == 0) {
      if (round % 2) wait_until(turn, 1);
      long wrong = differ(at, PAGES, round);
      if (round % 3 == 0) fill(at, PAGES / 2, 99);
      _exit(wrong != 0);
    }
    unmap(at, PAGES * PAGE);
    if (map_at(at, PAGES * PAGE, RW, PRIVATE | MAP_FIXED) != (long)at) _exit(96);
    wrong_zero += not_zero(at, PAGES);
    fill(at, PAGES, round + 7);
    atomic_store(turn, 1);
    wrong_zero += differ(at, PAGES, round + 7);
    wrong_child += ended(child);
    wrong_parent += differ(at, PAGES, round + 7);
  }
  check("children saw the old memory", wrong_child, 0);
  check("new memory was zeros", wrong_zero, 0);
  check("and was kept", wrong_parent, 0);
  return end();
}
