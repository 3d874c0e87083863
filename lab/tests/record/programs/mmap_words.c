// Odd words of mmap: what is refused, how, and what is not looked at.
#include "answers.h"
#ifndef MAP_SHARED_VALIDATE
#define MAP_SHARED_VALIDATE 3
#endif
static long m(unsigned long a, unsigned long n, unsigned long prot, unsigned long fl, long fd, unsigned long off) {
  long r = syscall(SYS_mmap, a, n, prot, fl, fd, off);
  if (r == -1) return -errno;
  munmap((void *)r, n);
  return 1;
}
int main(void) {
  IS("SHARED_VALIDATE anonymous", m(0, PG, RW, MAP_SHARED_VALIDATE | MAP_ANONYMOUS, -1, 0), -EINVAL);
  IS("no type", m(0, PG, RW, MAP_ANONYMOUS, -1, 0), -EINVAL);
  IS("type 15", m(0, PG, RW, 15 | MAP_ANONYMOUS, -1, 0), -EINVAL);
  IS("length 0", m(0, 0, RW, AP, -1, 0), -EINVAL);
  IS("length 0, no type", m(0, 0, RW, MAP_ANONYMOUS, -1, 0), -EINVAL);
  IS("length that wraps", m(0, -1UL, RW, AP, -1, 0), -ENOMEM);
  IS("length 2^47", m(0, 1UL << 47, RW, AP | MAP_NORESERVE, -1, 0), -ENOMEM);
  IS("unknown rights are ignored", m(0, PG, 0xb, AP, -1, 0), 1);
  IS("many unknown rights", m(0, PG, 0xfffffff0 | RW, AP, -1, 0), 1);
  IS("unknown flags are ignored", m(0, PG, RW, AP | 0x80000000UL, -1, 0), 1);
  IS("offset inside of a page", m(0, PG, RW, AP, -1, 1), -EINVAL);
  IS("offset inside of a page, shared", m(0, PG, RW, AS, -1, 0x800), -EINVAL);
  IS("offset of pages, ignored", m(0, PG, RW, AP, -1, 0x5000), 1);
  IS("offset of pages, shared", m(0, PG, RW, AS, -1, 0x5000), 1);
  IS("fd of anonymous memory, ignored", m(0, PG, RW, AP, 77, 0), 1);
  IS("fd that is not open", m(0, PG, RW, MAP_PRIVATE, 77, 0), -EBADF);
  IS("fd -1", m(0, PG, RW, MAP_PRIVATE, -1, 0), -EBADF);
  IS("fd -1, length 0", m(0, 0, RW, MAP_PRIVATE, -1, 0), -EBADF);
  IS("FIXED unaligned", m(0x10000001, PG, RW, AP | MAP_FIXED, -1, 0), -EINVAL);
  IS("FIXED at 0", m(0, PG, RW, AP | MAP_FIXED, -1, 0) == 1 || errno == EPERM, 1);
  IS("FIXED beyond", m(1UL << 47, PG, RW, AP | MAP_FIXED, -1, 0), -ENOMEM);
  IS("FIXED that ends beyond", m((1UL << 47) - 2 * PG, 2 * PG, RW, AP | MAP_FIXED, -1, 0), -ENOMEM);
  IS("FIXED non-canonical", m(0xaaaaaaaaaaaa0000, PG, RW, AP | MAP_FIXED, -1, 0), -ENOMEM);
  IS("hint non-canonical", m(0xaaaaaaaaaaaa0000, PG, RW, AP, -1, 0), 1);
  IS("hint unaligned", m(0x10000001, PG, RW, AP, -1, 0), 1);
  IS("HUGETLB of a size that is not", m(0, HP, RW, AP | MAP_HUGETLB | (22 << 26), -1, 0), -EINVAL);
  IS("HUGETLB without type", m(0, HP, RW, MAP_ANONYMOUS | MAP_HUGETLB, -1, 0), -EINVAL);
  // An answer that a hint gives: what mmap returns is where the rounded hint says.
  char *p = mmap((void *)0x10000fff, PG, RW, AP, -1, 0);
  IS("a hint is rounded down", p, 0x10000000);
  IS("the same hint with NOREPLACE", er((long)mmap((void *)0x10000000, PG, RW, AP | MAP_FIXED_NOREPLACE, -1, 0)), -EEXIST);
  IS("NOREPLACE over its end", er((long)mmap((void *)0xffff000, 2 * PG, RW, AP | MAP_FIXED_NOREPLACE, -1, 0)), -EEXIST);
  IS("NOREPLACE beside", er((long)mmap((void *)0x10001000, PG, RW, AP | MAP_FIXED_NOREPLACE, -1, 0)), 0x10001000);
  IS("NOREPLACE unaligned", er((long)mmap((void *)0x10003001, PG, RW, AP | MAP_FIXED_NOREPLACE, -1, 0)), -EINVAL);
  return done();
}
