// Huge reservations without rights or without reserve, parts made usable, and a fork of that.
#include "../../programs/sweep/sweep.h"
int main(void) {
  expect_faults();
  size_t tb = 1UL << 40;
  char *p = mmap(0, 8 * tb, PROT_NONE, PRIVATE | MAP_NORESERVE, -1, 0);
  check("8 TiB without rights", p != MAP_FAILED, 1);
  char *q = mmap(0, 4 * tb, RW, PRIVATE | MAP_NORESERVE, -1, 0);
  check("4 TiB without reserve", q != MAP_FAILED, 1);
  check("4 TiB with one", answer((long)mmap(0, 4 * tb, RW, PRIVATE, -1, 0)), -ENOMEM);
  char *r = mmap(0, 4 * tb, PROT_READ, PRIVATE, -1, 0);
  check("4 TiB to read", r != MAP_FAILED, 1);
  check("rights to write it", answer(mprotect(r, 4 * tb, RW)), -ENOMEM);
  check("rights to write a part", answer(mprotect(r + tb, 4 * PAGE, RW)), 0);
  check("NORESERVE: rights to write all", answer(mprotect(p, 8 * tb, RW)), 0);
  for (size_t i = 0; i < 8; i++) p[i * tb + 5 * PAGE] = i + 1;
  q[3 * tb] = 9;
  pid_t c = fork();
  if (c == 0) {
    int ok = 1;
    for (size_t i = 0; i < 8; i++) ok = ok && p[i * tb + 5 * PAGE] == (char)(i + 1);
    p[5 * tb] = 1;
    ok = ok && q[3 * tb] == 9;
    munmap(p + tb, 6 * tb);
    ok = ok && load(p + 2 * tb) == MAPERR;
    _exit(ok ? 46 : 1);
  }
  check("child", ended(c), 46);
  check("DONTNEED of 8 TiB", answer(madvise(p, 8 * tb, MADV_DONTNEED)), 0);
  check("dropped", p[5 * PAGE] + p[7 * tb + 5 * PAGE], 0);
  check("none again", answer(mprotect(p, 8 * tb, PROT_NONE)), 0);
  check("no access", load(p + 5 * PAGE), ACCERR);
  check("advice on 8 TiB", answer(madvise(p, 8 * tb, MADV_DONTDUMP)), 0);
  check("munmap", answer(munmap(p, 8 * tb)) + answer(munmap(q, 4 * tb)) + answer(munmap(r, 4 * tb)), 0);
  return end();
}
