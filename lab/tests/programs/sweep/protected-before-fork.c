// Pages that were made read-only, or without rights, before a fork: whoever makes them writable again has a copy.
#include "sweep.h"

static long child_stores(char *at) {
  if (protect(at, 4 * PAGE, RW)) return 1;
  if (differ(at, 4, 1)) return 2;
  fill(at, 4, 50);
  return differ(at, 4, 50) ? 3 : 0;
}

static void with(const char *what, int prot, int flags, int child_seen) {
  char *at = map(4 * PAGE, RW, flags);
  say("-- %s\n", what);
  fill(at, 4, 1);
  check("rights", protect(at, 4 * PAGE, prot), 0);
  check("the child stores", ended(CHILD(child_stores(at))), 0);
  check("rights again", protect(at, 4 * PAGE, RW), 0);
  check("the parent's contents", differ(at, 4, child_seen ? 50 : 1), 0);
  fill(at, 4, 1);
  // The parent stores first, the child looks afterwards.
  atomic_int *turn = (atomic_int *)map(PAGE, RW, SHARED);
  check("rights", protect(at, 4 * PAGE, prot), 0);
  pid_t child = fork();
  if (child == 0) {
    wait_until(turn, 1);
    _exit(protect(at, 4 * PAGE, RW) || differ(at, 4, child_seen ? 70 : 1));
  }
  check("rights", protect(at, 4 * PAGE, RW), 0);
  fill(at, 4, 70);
  atomic_store(turn, 1);
  check("the child's contents", ended(child), 0);
  check("the parent's", differ(at, 4, 70), 0);
}

int main(void) {
  with("read-only", PROT_READ, PRIVATE, 0);
  with("none", PROT_NONE, PRIVATE, 0);
  with("read and execute", PROT_READ | PROT_EXEC, PRIVATE, 0);
  with("shared, read-only", PROT_READ, SHARED, 1);
  with("shared, none", PROT_NONE, SHARED, 1);
  return end();
}
