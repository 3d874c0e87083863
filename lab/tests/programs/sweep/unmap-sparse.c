// munmap of terabytes with few mappings in them: all of them go, holes are no error.
#include "sweep.h"

#define MAPPINGS 64

static char *place(int number) { return (char *)(2UL << 40) + ((unsigned long)number << 33); }

static void scatter(void) {
  long wrong = 0;
  for (int i = 0; i < MAPPINGS; i++) {
    int flags = (i % 3 ? PRIVATE : SHARED) | MAP_FIXED_NOREPLACE | (i % 5 ? 0 : MAP_NORESERVE);
    wrong += map_at(place(i), (1 + i % 7) * PAGE, RW, flags) != (long)place(i);
    fill(place(i), 1 + i % 7, i);
  }
  check("scattered", wrong, 0);
}

int main(void) {
  expect_faults();
  char *below = place(0) - 4 * PAGE, *above = (char *)(20UL << 40);
  check("below", map_at(below, 4 * PAGE, RW, PRIVATE | MAP_FIXED_NOREPLACE), (long)below);
  check("above", map_at(above - PAGE, 4 * PAGE, RW, PRIVATE | MAP_FIXED_NOREPLACE), (long)(above - PAGE));
  fill(below, 4, 1);
  fill(above - PAGE, 4, 1);
  scatter();
  check("eighteen terabytes go", unmap(below + 2 * PAGE, above - (below + 2 * PAGE)), 0);
  long left = 0;
  for (int i = 0; i < MAPPINGS; i++) left += load(place(i)) != MAPERR;
  check("all of them", left, 0);
  check("the end of what is below", load(below + 2 * PAGE), MAPERR);
  check("its beginning", differ(below, 2, 1), 0);
  check("the beginning of what is above", load(above - PAGE), MAPERR);
  check("its end", differ(above, 3, 2), 0);
  check("nothing left", unmap(below + 2 * PAGE, above - (below + 2 * PAGE)), 0);
  scatter();
  check("every second goes", unmap(place(1), place(2) - place(1)), 0);
  check("gone", load(place(1)), MAPERR);
  check("still there", differ(place(2), 3, 2) + differ(place(0), 1, 0), 0);
  check("the rest", unmap(place(0), place(MAPPINGS) - place(0)), 0);
  check("gone too", load(place(MAPPINGS - 1)), MAPERR);
  return end();
}
