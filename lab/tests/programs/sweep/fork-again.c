// A child that forks before it has written; each generation stores to its own copy.
#include "sweep.h"

#define GENERATIONS 5

// Forks down to the last generation, which stores to all pages; each one before it then finds the old contents,
// and stores to half of them. Returns how many things were wrong.
static long generation(char *at, int number) {
  if (number == GENERATIONS) {
    fill(at, 8, 100);
    return differ(at, 8, 100) != 0;
  }
  long wrong = ended(CHILD(generation(at, number + 1)));
  wrong += differ(at, 8, 1) != 0;
  fill(at + 4 * PAGE, 4, 50 + number);
  return wrong + (differ(at, 4, 1) != 0) + (differ(at + 4 * PAGE, 4, 50 + number) != 0);
}

int main(void) {
  char *at = map(8 * PAGE, RW, PRIVATE);
  fill(at, 8, 1);
  check("each generation waits for the next", generation(at, 0), 0);
  check("the first, after all", differ(at, 4, 1), 0);
  fill(at, 8, 1);
  // The middle ends first: its child then has the pages with the grandparent alone.
  atomic_int *turn = (atomic_int *)map(PAGE, RW, SHARED);
  pid_t middle = fork();
  if (middle == 0) {
    if (fork() == 0) {
      wait_until(turn, 1);
      fill(at, 4, 60);
      long wrong = differ(at, 4, 60) + differ(at + 4 * PAGE, 4, 5);
      atomic_store(turn, wrong ? 99 : 2);
      _exit(0);
    }
    _exit(0);
  }
  check("the middle", ended(middle), 0);
  atomic_store(turn, 1);
  wait_until(turn, 2);
  check("its child", atomic_load(turn), 2);
  check("their parent", differ(at, 8, 1), 0);
  fill(at, 8, 70);
  check("stores", differ(at, 8, 70), 0);
  return end();
}
