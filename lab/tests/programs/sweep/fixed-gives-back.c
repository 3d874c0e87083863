// Memory that is given back by mmap(MAP_FIXED, PROT_NONE) over it, and made usable later: zeros.
#include "sweep.h"

#define PAGES 64

int main(void) {
  expect_faults();
  char *at = map(PAGES * PAGE, PROT_NONE, PRIVATE | MAP_NORESERVE);
  check("made usable", protect(at, PAGES * PAGE, RW), 0);
  fill(at, PAGES, 1);
  long wrong = 0;
  for (int round = 0; round < 40; round++) {
    size_t from = (round * 7) % 48 + 1, pages = round % 12 + 2;
    char *part = at + from * PAGE;
    wrong += map_at(part, pages * PAGE, PROT_NONE, PRIVATE | MAP_FIXED | MAP_NORESERVE) != (long)part;
    wrong += load(part) != ACCERR || store(part + (pages - 1) * PAGE, 1) != ACCERR;
    if (round % 2)
      wrong += protect(part, pages * PAGE, RW) != 0;
    else
      wrong += map_at(part, pages * PAGE, RW, PRIVATE | MAP_FIXED) != (long)part;
    wrong += not_zero(part, pages);
    fill(part, pages, 1 + from);
    wrong += differ(at, PAGES, 1);
  }
  check("forty times", wrong, 0);
  check("all of it", map_at(at, PAGES * PAGE, PROT_NONE, PRIVATE | MAP_FIXED), (long)at);
  check("no rights", load(at + 9 * PAGE), ACCERR);
  unsigned char there[PAGES];
  check("mincore", resident(at, PAGES * PAGE, there), 0);
  for (int page = 1; page < PAGES; page++) there[0] |= there[page];
  check("nothing is resident", there[0] & 1, 0);
  return end();
}
