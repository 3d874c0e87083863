// Advice that is given and taken back, page after page: parts join again, so the number of mappings does not grow.
#include "sweep.h"

#define PAGES 70000UL

int main(void) {
  char *at = map(PAGES * PAGE, PROT_NONE, PRIVATE | MAP_NORESERVE);
  long refused_calls = 0;
  for (unsigned long i = 1; i < PAGES - 1; i++) {
    refused_calls += advise(at + i * PAGE, PAGE, MADV_DONTDUMP) != 0;
    refused_calls += advise(at + i * PAGE, PAGE, MADV_DODUMP) != 0;
  }
  check("refused", refused_calls, 0);
  char *used = map(64 * PAGE, RW, PRIVATE);
  fill(used, 64, 1);
  for (int round = 0; round < 8; round++)
    for (int i = 0; i < 64; i += 2) {
      refused_calls += advise(used + i * PAGE, PAGE, MADV_DONTFORK) != 0;
      refused_calls += advise(used + i * PAGE, PAGE, MADV_DOFORK) != 0;
    }
  check("refused, of memory in use", refused_calls, 0);
  check("a child has all of it", ended(CHILD(differ(used, 64, 1))), 0);
  check("there is room for more", map_at(0, PAGE, RW, PRIVATE) > 0, 1);
  return end();
}
