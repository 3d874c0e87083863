// Memory that may have huge pages, of which parts go, change rights, are dropped and copied: each base page keeps its
// own contents and rights.
#include "sweep.h"

#define PAGES 1024

static char byte_of(size_t page) { return (char)(page % 101 + 1); }

// Pages that are not as they should be; those of `gone` are not looked at.
static long wrong(char *at, const char *gone) {
  long count = 0;
  for (size_t page = 0; page < PAGES; page++)
    if (!gone[page]) count += at[page * PAGE] != byte_of(page) || at[page * PAGE + 4095] != byte_of(page);
  return count;
}

static long child(char *at, char *gone) {
  if (wrong(at, gone)) return 1;
  memset(at + 300 * PAGE, 7, PAGE);
  if (unmap(at + 301 * PAGE, PAGE) || advise(at + 302 * PAGE, PAGE, MADV_DONTNEED)) return 2;
  memset(gone + 300, 1, 3);
  if (at[300 * PAGE] != 7 || load(at + 301 * PAGE) != MAPERR || at[302 * PAGE] != 0) return 3;
  return wrong(at, gone) ? 4 : 0;
}

int main(void) {
  static char gone[PAGES], gone_of_child[PAGES];
  expect_faults();
  char *at = map_aligned(PAGES * PAGE, RW, PRIVATE);
  long advised = advise(at, PAGES * PAGE, MADV_HUGEPAGE);
  check("huge pages are advised", advised == 0 || advised == -EINVAL, 1);
  for (size_t page = 0; page < PAGES; page++) memset(at + page * PAGE, byte_of(page), PAGE);
  check("filled", wrong(at, gone), 0);
  check("a page goes", unmap(at + 7 * PAGE, PAGE), 0);
  check("one is read-only", protect(at + 100 * PAGE, PAGE, PROT_READ), 0);
  check("one is dropped", advise(at + 200 * PAGE, PAGE, MADV_DONTNEED), 0);
  gone[7] = gone[200] = 1;
  check("the others", wrong(at, gone), 0);
  check("gone", load(at + 7 * PAGE), MAPERR);
  check("read-only", store(at + 100 * PAGE, 1), ACCERR);
  check("its neighbour", store(at + 101 * PAGE, byte_of(101)), 0);
  check("dropped", at[200 * PAGE], 0);
  memcpy(gone_of_child, gone, PAGES);
  check("a child", ended(CHILD(child(at, gone_of_child))), 0);
  check("not the parent's", wrong(at, gone), 0);
  check("all of the second", protect(at + HUGE, HUGE, PROT_NONE), 0);
  check("no rights", load(at + HUGE + 9 * PAGE), ACCERR);
  check("a child has none either", ended(CHILD(load(at + HUGE) != ACCERR)), 0);
  check("rights again", protect(at + HUGE, HUGE, RW), 0);
  check("contents", wrong(at, gone), 0);
  check("across both", unmap(at + 500 * PAGE, 24 * PAGE), 0);
  memset(gone + 500, 1, 24);
  check("what is left", wrong(at, gone), 0);
  return end();
}
