// Of memory that may have huge pages most base pages are dropped, a few kept; written again, and dropped again.
#include "sweep.h"

#define PAGES 2048

static int kept(size_t page) { return page % 33 == 0; }

static void drop_most(const char *what, char *at, int from) {
  long wrong = 0, refused_calls = 0;
  for (size_t page = 0; page < PAGES; page++) memset(at + page * PAGE, (char)(from + page % 50), PAGE);
  for (size_t page = 0; page < PAGES; page++)
    if (!kept(page)) refused_calls += advise(at + page * PAGE, PAGE, MADV_DONTNEED) != 0;
  for (size_t page = 0; page < PAGES; page++)
    wrong += at[page * PAGE + 17] != (kept(page) ? (char)(from + page % 50) : 0);
  say("-- %s\n", what);
  check("refused", refused_calls, 0);
  check("kept, and zeros", wrong, 0);
}

int main(void) {
  char *at = map_aligned(PAGES * PAGE, RW, PRIVATE);
  long advised = advise(at, PAGES * PAGE, MADV_HUGEPAGE);
  check("huge pages are advised", advised == 0 || advised == -EINVAL, 1);
  drop_most("once", at, 1);
  drop_most("again", at, 60);
  check("all is dropped", advise(at, PAGES * PAGE, MADV_DONTNEED), 0);
  drop_most("after all was dropped", at, 3);
  check("a child", ended(CHILD((drop_most("in a child", at, 9), failed))), 0);
  long wrong = 0;
  for (size_t page = 0; page < PAGES; page++)
    wrong += at[page * PAGE + 17] != (kept(page) ? (char)(3 + page % 50) : 0);
  check("the parent's", wrong, 0);
  return end();
}
