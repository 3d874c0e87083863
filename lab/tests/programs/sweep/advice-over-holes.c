// madvise over a hole: the answer is ENOMEM, and the parts beside the hole have been advised.
#include "sweep.h"

static const struct { int number; const char *name; } ADVICE[] = {
  {MADV_NORMAL, "NORMAL"}, {MADV_RANDOM, "RANDOM"}, {MADV_SEQUENTIAL, "SEQUENTIAL"}, {MADV_COLD, "COLD"},
  {MADV_DONTDUMP, "DONTDUMP"}, {MADV_DODUMP, "DODUMP"}, {MADV_HUGEPAGE, "HUGEPAGE"},
  {MADV_NOHUGEPAGE, "NOHUGEPAGE"}, {MADV_WIPEONFORK, "WIPEONFORK"}, {MADV_KEEPONFORK, "KEEPONFORK"},
  {MADV_DONTFORK, "DONTFORK"}, {MADV_DOFORK, "DOFORK"}, {MADV_FREE, "FREE"}, {MADV_DONTNEED, "DONTNEED"},
};

static long lacks_all(char *at) {
  return load(at) == MAPERR && load(at + PAGE) == MAPERR && load(at + 3 * PAGE) == MAPERR && load(at + 4 * PAGE) == MAPERR;
}

int main(void) {
  expect_faults();
  char *at = map(5 * PAGE, RW, PRIVATE);
  fill(at, 5, 1);
  check("a hole", unmap(at + 2 * PAGE, PAGE), 0);
  check("DONTFORK", advise(at, 5 * PAGE, MADV_DONTFORK), -ENOMEM);
  check("a child has none of it", ended(CHILD(!lacks_all(at))), 0);
  check("DOFORK", advise(at, 5 * PAGE, MADV_DOFORK), -ENOMEM);
  check("a child has it", ended(CHILD(differ(at, 2, 1) + differ(at + 3 * PAGE, 2, 4))), 0);
  for (size_t i = 0; i < sizeof ADVICE / sizeof *ADVICE; i++)
    check(ADVICE[i].name, advise(at, 5 * PAGE, ADVICE[i].number), -ENOMEM);
  check("dropped before the hole", not_zero(at, 2), 0);
  check("dropped behind the hole", not_zero(at + 3 * PAGE, 2), 0);
  check("dropped again", advise(at, 5 * PAGE, MADV_DONTNEED), -ENOMEM);
  check("POPULATE_WRITE", advise(at, 5 * PAGE, MADV_POPULATE_WRITE), -ENOMEM);
  unsigned char there[2] = {0, 0};
  check("mincore", resident(at, 2 * PAGE, there), 0);
  check("populated before the hole", (there[0] & 1) + (there[1] & 1), 2);
  check("mincore", resident(at + 3 * PAGE, 2 * PAGE, there), 0);
  check("not behind it", (there[0] & 1) + (there[1] & 1), 0);
  check("a hole first", advise(at + 2 * PAGE, 2 * PAGE, MADV_RANDOM), -ENOMEM);
  check("a hole alone", advise(at + 2 * PAGE, PAGE, MADV_RANDOM), -ENOMEM);
  check("no length, in a hole", advise(at + 2 * PAGE, 0, MADV_RANDOM), 0);
  check("a number that is none, no length", advise(at, 0, 99), -EINVAL);
  check("inside a page", advise(at + 1, PAGE, MADV_RANDOM), -EINVAL);
  return end();
}
