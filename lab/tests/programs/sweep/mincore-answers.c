// mincore: a byte for each page; ENOMEM at a hole, with the bytes before it written.
#include "sweep.h"

int main(void) {
  char *at = map(8 * PAGE, RW, PRIVATE);
  unsigned char told[9];
  volatile char sink;
  at[PAGE] = 1;
  at[3 * PAGE] = 1;
  sink = at[2 * PAGE];
  (void)sink;
  memset(told, 7, sizeof told);
  check("eight pages", resident(at, 8 * PAGE, told), 0);
  const char *want = "01110000";
  for (int i = 0; i < 8; i++) check("a page", told[i] & 1, want[i] - '0');
  check("no more bytes", told[8], 7);
  check("dropped", advise(at + PAGE, PAGE, MADV_DONTNEED), 0);
  check("a part of a page counts", resident(at + PAGE, PAGE + 1, told), 0);
  check("the dropped one", told[0] & 1, 0);
  check("the read one", told[1] & 1, 1);
  check("without rights", protect(at + 3 * PAGE, PAGE, PROT_NONE), 0);
  check("is resident all the same", resident(at + 3 * PAGE, PAGE, told), 0);
  check("its byte", told[0] & 1, 1);
  check("a hole", unmap(at + 6 * PAGE, PAGE), 0);
  memset(told, 7, sizeof told);
  check("over a hole", resident(at, 8 * PAGE, told), -ENOMEM);
  check("the bytes before it", told[5], 0);
  check("none behind it", told[7], 7);
  check("a hole alone", resident(at + 6 * PAGE, PAGE, told), -ENOMEM);
  check("far away", resident((void *)(1UL << 40), PAGE, told), -ENOMEM);
  check("outside of user space", resident((void *)(1UL << 63), PAGE, told), -ENOMEM);
  check("inside a page", resident(at + 1, PAGE, told), -EINVAL);
  check("no length", resident(at, 0, told), 0);
  check("no bytes to write to", resident(at, PAGE, (void *)8), -EFAULT);
  char *shared = map(2 * PAGE, RW, SHARED);
  check("a child touches shared memory", ended(CHILD((shared[PAGE] = 1) - 1)), 0);
  check("shared", resident(shared, 2 * PAGE, told), 0);
  check("the object has it", told[1] & 1, 1);
  check("not the other", told[0] & 1, 0);
  return end();
}
