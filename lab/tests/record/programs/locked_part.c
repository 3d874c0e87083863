// MADV_DONTNEED is refused at a locked part, and has dropped what lies before; MADV_DONTNEED_LOCKED drops all.
#include "answers.h"
int main(int argc, char **argv) {
  char *p = anon(4 * PG, RW, AP);
  mlock(p + 2 * PG, PG);
  memset(p, 4, 4 * PG);
  if (argc < 2) {
    IS("DONTNEED", er(madvise(p, 4 * PG, MADV_DONTNEED)), -EINVAL);
    IS("before it", p[0] + p[PG], 0);
    IS("it, and behind", p[2 * PG] + p[3 * PG], 8);
  } else {
    IS("DONTNEED_LOCKED", er(madvise(p, 4 * PG, 24)), 0);
    IS("all", p[0] + p[PG] + p[2 * PG] + p[3 * PG], 0);
  }
  return done();
}
