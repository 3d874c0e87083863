// mremap that has to move again and again: contents move along; what shrinks keeps what is left.
#include "sweep.h"

int main(void) {
  expect_faults();
  char *at = map(PAGE, RW, PRIVATE);
  fill(at, 1, 1);
  size_t pages = 1;
  long wrong = 0, moves = 0;
  for (; pages < 256; pages *= 2) {
    // Whatever comes, the place behind it is taken.
    map_at(at + pages * PAGE, PAGE, PROT_NONE, PRIVATE | MAP_FIXED_NOREPLACE);
    long to = remap(at, pages * PAGE, 2 * pages * PAGE, MREMAP_MAYMOVE, 0);
    if (to < 0 && to > -4096) { check("it grows", to, 0); return end(); }
    moves += to != (long)at;
    at = (char *)to;
    wrong += differ(at, pages, 1) + not_zero(at + pages * PAGE, pages);
    fill(at, 2 * pages, 1);
  }
  check("contents, each time", wrong, 0);
  check("it moved each time", moves, 8);
  check("a child", ended(CHILD(differ(at, 256, 1))), 0);
  for (; pages > 1; pages /= 2) {
    wrong += remap(at, pages * PAGE, pages / 2 * PAGE, 0, 0) != (long)at;
    wrong += differ(at, pages / 2, 1) + (load(at + pages / 2 * PAGE) == 0);
  }
  check("it shrinks", wrong, 0);
  check("one page", remap(at, PAGE, PAGE, MREMAP_MAYMOVE, 0), (long)at);
  check("its contents", at[0], 1);
  return end();
}
