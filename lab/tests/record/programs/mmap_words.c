// Odd words of mmap: what is refused, how, and what is not looked at.
#include "../../programs/sweep/sweep.h"
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
  check("SHARED_VALIDATE anonymous", m(0, PAGE, RW, MAP_SHARED_VALIDATE | MAP_ANONYMOUS, -1, 0), -EINVAL);
  check("no type", m(0, PAGE, RW, MAP_ANONYMOUS, -1, 0), -EINVAL);
  check("type 15", m(0, PAGE, RW, 15 | MAP_ANONYMOUS, -1, 0), -EINVAL);
  check("length 0", m(0, 0, RW, PRIVATE, -1, 0), -EINVAL);
  check("length 0, no type", m(0, 0, RW, MAP_ANONYMOUS, -1, 0), -EINVAL);
  check("length that wraps", m(0, -1UL, RW, PRIVATE, -1, 0), -ENOMEM);
  check("length 2^47", m(0, 1UL << 47, RW, PRIVATE | MAP_NORESERVE, -1, 0), -ENOMEM);
  check("unknown rights are ignored", m(0, PAGE, 0xb, PRIVATE, -1, 0), 1);
  check("many unknown rights", m(0, PAGE, 0xfffffff0 | RW, PRIVATE, -1, 0), 1);
  check("unknown flags are ignored", m(0, PAGE, RW, PRIVATE | 0x80000000UL, -1, 0), 1);
  check("offset inside of a page", m(0, PAGE, RW, PRIVATE, -1, 1), -EINVAL);
  check("offset inside of a page, shared", m(0, PAGE, RW, SHARED, -1, 0x800), -EINVAL);
  check("offset of pages, ignored", m(0, PAGE, RW, PRIVATE, -1, 0x5000), 1);
  check("offset of pages, shared", m(0, PAGE, RW, SHARED, -1, 0x5000), 1);
  check("fd of anonymous memory, ignored", m(0, PAGE, RW, PRIVATE, 77, 0), 1);
  check("fd that is not open", m(0, PAGE, RW, MAP_PRIVATE, 77, 0), -EBADF);
  check("fd -1", m(0, PAGE, RW, MAP_PRIVATE, -1, 0), -EBADF);
  check("fd -1, length 0", m(0, 0, RW, MAP_PRIVATE, -1, 0), -EBADF);
  check("FIXED unaligned", m(0x10000001, PAGE, RW, PRIVATE | MAP_FIXED, -1, 0), -EINVAL);
  check("FIXED at 0", m(0, PAGE, RW, PRIVATE | MAP_FIXED, -1, 0) == 1 || errno == EPERM, 1);
  check("FIXED beyond", m(1UL << 47, PAGE, RW, PRIVATE | MAP_FIXED, -1, 0), -ENOMEM);
  check("FIXED that ends beyond", m((1UL << 47) - 2 * PAGE, 2 * PAGE, RW, PRIVATE | MAP_FIXED, -1, 0), -ENOMEM);
  check("FIXED non-canonical", m(0xaaaaaaaaaaaa0000, PAGE, RW, PRIVATE | MAP_FIXED, -1, 0), -ENOMEM);
  check("hint non-canonical", m(0xaaaaaaaaaaaa0000, PAGE, RW, PRIVATE, -1, 0), 1);
  check("hint unaligned", m(0x10000001, PAGE, RW, PRIVATE, -1, 0), 1);
  check("HUGETLB of a size that is not", m(0, HUGE, RW, PRIVATE | MAP_HUGETLB | (22 << 26), -1, 0), -EINVAL);
  check("HUGETLB without type", m(0, HUGE, RW, MAP_ANONYMOUS | MAP_HUGETLB, -1, 0), -EINVAL);
  // An answer that a hint gives: what mmap returns is where the rounded hint says.
  char *p = mmap((void *)0x10000fff, PAGE, RW, PRIVATE, -1, 0);
  check("a hint is rounded down", (long)p, 0x10000000);
  check("the same hint with NOREPLACE", answer((long)mmap((void *)0x10000000, PAGE, RW, PRIVATE | MAP_FIXED_NOREPLACE, -1, 0)), -EEXIST);
  check("NOREPLACE over its end", answer((long)mmap((void *)0xffff000, 2 * PAGE, RW, PRIVATE | MAP_FIXED_NOREPLACE, -1, 0)), -EEXIST);
  check("NOREPLACE beside", answer((long)mmap((void *)0x10001000, PAGE, RW, PRIVATE | MAP_FIXED_NOREPLACE, -1, 0)), 0x10001000);
  check("NOREPLACE unaligned", answer((long)mmap((void *)0x10003001, PAGE, RW, PRIVATE | MAP_FIXED_NOREPLACE, -1, 0)), -EINVAL);
  return end();
}
