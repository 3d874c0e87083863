// MADV_DONTNEED is refused at a locked part, and has dropped what lies before; MADV_DONTNEED_LOCKED drops all.
#include "../../programs/sweep/sweep.h"
int main(int argc, char **argv) {
  char *p = map(4 * PAGE, RW, PRIVATE);
  mlock(p + 2 * PAGE, PAGE);
  memset(p, 4, 4 * PAGE);
  if (argc < 2) {
    check("DONTNEED", answer(madvise(p, 4 * PAGE, MADV_DONTNEED)), -EINVAL);
    check("before it", p[0] + p[PAGE], 0);
    check("it, and behind", p[2 * PAGE] + p[3 * PAGE], 8);
  } else {
    check("DONTNEED_LOCKED", answer(madvise(p, 4 * PAGE, 24)), 0);
    check("all", p[0] + p[PAGE] + p[2 * PAGE] + p[3 * PAGE], 0);
  }
  return end();
}
