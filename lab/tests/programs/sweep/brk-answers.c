// brk answers with the break as it is: the new one, or the old one where it refuses.
#include "sweep.h"

static long brk_to(unsigned long at) { return syscall(SYS_brk, at); }

int main(void) {
  expect_faults();
  unsigned long now = brk_to(0);
  check("something below the heap", brk_to(1), now);
  check("the end of numbers", brk_to(-1UL), now);
  check("the kernel's half", brk_to(1UL << 63), now);
  check("past user space", brk_to(now + (1UL << 47)), now);
  check("inside a page", brk_to(now + 100), now + 100);
  check("the same", brk_to(now + 100), now + 100);
  check("an odd number", brk_to(now + 3 * PAGE + 1), now + 3 * PAGE + 1);
  check("can be used", store((char *)(now + 3 * PAGE), 1), 0);
  unsigned long above = ((now + 3 * PAGE + 1 + PAGE - 1) & ~(PAGE - 1)) + 8 * PAGE;
  check("a mapping above", map_at((void *)above, PAGE, RW, PRIVATE | MAP_FIXED), above);
  check("into it", brk_to(above + PAGE), now + 3 * PAGE + 1);
  check("up to it", brk_to(above), now + 3 * PAGE + 1);
  check("a page below it", brk_to(above - PAGE), above - PAGE);
  check("back", brk_to(now), now);
  check("is where it was", brk_to(0), now);
  check("a child's", ended(CHILD(brk_to(now + PAGE) != (long)(now + PAGE))), 0);
  check("is not its parent's", brk_to(0), now);
  return end();
}
