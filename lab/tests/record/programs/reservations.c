// Huge reservations without rights or without reserve, parts made usable, and a fork of that.
#include "answers.h"
int main(void) {
  catch_faults();
  size_t tb = 1UL << 40;
  char *p = mmap(0, 8 * tb, PROT_NONE, AP | MAP_NORESERVE, -1, 0);
  OK("8 TiB without rights", p != MAP_FAILED);
  char *q = mmap(0, 4 * tb, RW, AP | MAP_NORESERVE, -1, 0);
  OK("4 TiB without reserve", q != MAP_FAILED);
  IS("4 TiB with one", er((long)mmap(0, 4 * tb, RW, AP, -1, 0)), -ENOMEM);
  char *r = mmap(0, 4 * tb, PROT_READ, AP, -1, 0);
  OK("4 TiB to read", r != MAP_FAILED);
  IS("rights to write it", er(mprotect(r, 4 * tb, RW)), -ENOMEM);
  IS("rights to write a part", er(mprotect(r + tb, 4 * PG, RW)), 0);
  IS("NORESERVE: rights to write all", er(mprotect(p, 8 * tb, RW)), 0);
  for (size_t i = 0; i < 8; i++) p[i * tb + 5 * PG] = i + 1;
  q[3 * tb] = 9;
  pid_t c = fork();
  if (c == 0) {
    int ok = 1;
    for (size_t i = 0; i < 8; i++) ok = ok && p[i * tb + 5 * PG] == (char)(i + 1);
    p[5 * tb] = 1;
    ok = ok && q[3 * tb] == 9;
    munmap(p + tb, 6 * tb);
    ok = ok && try_read(p + 2 * tb) == MAPERR;
    _exit(ok ? 46 : 1);
  }
  IS("child", reap(c), 46);
  IS("DONTNEED of 8 TiB", er(madvise(p, 8 * tb, MADV_DONTNEED)), 0);
  IS("dropped", p[5 * PG] + p[7 * tb + 5 * PG], 0);
  IS("none again", er(mprotect(p, 8 * tb, PROT_NONE)), 0);
  IS("no access", try_read(p + 5 * PG), ACCERR);
  IS("advice on 8 TiB", er(madvise(p, 8 * tb, MADV_DONTDUMP)), 0);
  IS("munmap", er(munmap(p, 8 * tb)) + er(munmap(q, 4 * tb)) + er(munmap(r, 4 * tb)), 0);
  return done();
}
