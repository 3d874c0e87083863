// Which error comes first, where more than one is due.
#include "sweep.h"

int main(void) {
  char *at = map(4 * PAGE, RW, PRIVATE), *kernel = (char *)0xffffffffffff0000UL;
  int fixed = PRIVATE | MAP_FIXED;
  check("outside, inside a page", map_at(kernel + 1, 512, PROT_NONE, fixed), -ENOMEM);
  check("outside", map_at(kernel, 512, PROT_NONE, fixed), -ENOMEM);
  check("outside, from below", map_at(kernel - 1, 512, PROT_NONE, fixed), -ENOMEM);
  check("a byte above", map_at(at + 1, 512, PROT_NONE, fixed), -EINVAL);
  check("a byte below", map_at(at - 1, 512, PROT_NONE, fixed), -EINVAL);
  check("outside and no type", map_at(kernel, 512, PROT_NONE, MAP_ANONYMOUS | MAP_FIXED), -ENOMEM);
  check("no length and no type", map_at(at, 0, PROT_NONE, MAP_ANONYMOUS), -EINVAL);
  check("too long and no type", map_at(at, 1UL << 47, PROT_NONE, MAP_ANONYMOUS), -ENOMEM);
  check("no type", map_at(0, PAGE, PROT_NONE, MAP_ANONYMOUS), -EINVAL);
  check("anonymous and to be validated", map_at(0, PAGE, RW, MAP_ANONYMOUS | MAP_SHARED_VALIDATE), -EINVAL);
  long lowest = map_at(0, PAGE, PROT_NONE, fixed);
  check("address 0: EPERM, or the privilege", lowest == -EPERM || lowest == 0, 1);
  check("a hint near 0", map_at((void *)PAGE, PAGE, PROT_NONE, PRIVATE) > (long)PAGE - 1, 1);
  check("unknown rights are ignored", map_at(at, PAGE, RW | 0x100000, fixed), (long)at);
  check("munmap, no length", unmap(at, 0), -EINVAL);
  check("munmap, inside a page", unmap(at + 1, PAGE), -EINVAL);
  check("munmap, outside", unmap(kernel, PAGE), -EINVAL);
  check("munmap, past the end", unmap(at, 1UL << 47), -EINVAL);
  check("munmap, a length near 2^64", unmap(at, -1UL), -EINVAL);
  check("mprotect, inside a page, no length", protect(at + 1, 0, RW), -EINVAL);
  check("mprotect, outside", protect((void *)(1UL << 63), PAGE, RW), -ENOMEM);
  check("madvise, outside", advise((void *)(1UL << 63), PAGE, MADV_RANDOM), -ENOMEM);
  check("madvise, a length near 2^64", advise(at, -1UL, MADV_RANDOM), -EINVAL);
  check("madvise, past 2^64", advise(kernel, 1UL << 20, MADV_RANDOM), -EINVAL);
  check("contents", not_zero(at, 4), 0);
  return end();
}
