// vfork: the child stores to its parent's memory and changes its mappings, and the parent waits for it.
#include "sweep.h"

static volatile int stored, finished;
static char *volatile given;
static char *pages;

static __attribute__((noinline)) void child(void) {
  stored = 42;
  pages[0] = 9;
  given = (char *)map_at(0, PAGE, RW, PRIVATE);
  given[0] = 5;
  if (unmap(pages + PAGE, PAGE) || protect(pages + 2 * PAGE, PAGE, PROT_READ)) _exit(2);
  if (advise(pages + 3 * PAGE, PAGE, MADV_DONTNEED)) _exit(3);
  for (int i = 0; i < 200; i++) sched_yield();
  finished = 1;
  _exit(7);
}

int main(void) {
  expect_faults();
  pages = map(4 * PAGE, RW, PRIVATE);
  fill(pages, 4, 1);
  pid_t born = vfork();
  if (born == 0) child();
  check("the parent waited", finished, 1);
  check("the child", ended(born), 7);
  check("a variable", stored, 42);
  check("a page", pages[0], 9);
  check("what it mapped", load(given), 0);
  check("and stored there", given[0], 5);
  check("what it unmapped", load(pages + PAGE), MAPERR);
  check("what it made read-only", store(pages + 2 * PAGE, 1), ACCERR);
  check("what it dropped", pages[3 * PAGE], 0);
  // After that a fork copies again.
  check("a fork's child", ended(CHILD((pages[0] = 33) - 33)), 0);
  check("stores to its own", pages[0], 9);
  return end();
}
