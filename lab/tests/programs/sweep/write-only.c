// PROT_WRITE alone: on x86-64 the memory can be read as well; MADV_POPULATE_READ wants the right itself.
#include "sweep.h"

static void use(const char *what, int flags) {
  char *at = map(4 * PAGE, PROT_WRITE, flags);
  say("-- %s\n", what);
  check("store", store(at, 1), 0);
  check("load what was stored", load(at), 0);
  check("contents", at[0], 1);
  check("load what was never touched", load(at + PAGE), 0);
  check("zeros", at[PAGE], 0);
  check("store after that", store(at + PAGE, 2), 0);
  check("contents", at[PAGE], 2);
  check("fetch", fetch(at), ACCERR);
  check("POPULATE_READ", advise(at + 2 * PAGE, PAGE, MADV_POPULATE_READ), -EINVAL);
  check("POPULATE_WRITE", advise(at + 2 * PAGE, PAGE, MADV_POPULATE_WRITE), 0);
  check("read-only", protect(at, PAGE, PROT_READ), 0);
  check("refuses stores", store(at, 3), ACCERR);
  check("write-only again", protect(at, PAGE, PROT_WRITE), 0);
  check("store again", store(at, 3), 0);
  check("contents", at[0], 3);
  check("with the right to execute", protect(at, PAGE, PROT_WRITE | PROT_EXEC), 0);
  check("load", load(at), 0);
  check("a child", ended(CHILD(store(at, 4) || at[0] != 4)), 0);
  check("without any", protect(at, PAGE, PROT_NONE), 0);
  check("load is refused", load(at), ACCERR);
}

int main(void) {
  expect_faults();
  use("private", PRIVATE);
  use("shared", SHARED);
  return end();
}
