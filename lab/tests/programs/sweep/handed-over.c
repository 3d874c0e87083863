// One thread maps, stores and hands over; another looks, and unmaps: what mmap returned is there, zeros, until then.
#include "sweep.h"
#include <pthread.h>

#define ROUNDS 1500
#define SLOTS 4

static _Atomic(char *) slots[2][SLOTS];
static atomic_long wrong_zero, wrong_tag, refused_calls;
static atomic_int over;

static void *maps(void *which) {
  long own = (long)which;
  for (int round = 0; round < ROUNDS; round++) {
    size_t pages = 1 + round % 3;
    char *at = (char *)map_at(0, pages * PAGE, RW, PRIVATE);
    if ((long)at < 0 && (long)at > -4096) { atomic_fetch_add(&refused_calls, 1); continue; }
    atomic_fetch_add(&wrong_zero, not_zero(at, pages));
    for (size_t page = 0; page < pages; page++) at[page * PAGE] = (char)(round % 100 + 1);
    at[1] = (char)pages;
    while (atomic_load(&slots[own][round % SLOTS])) sched_yield();
    atomic_store(&slots[own][round % SLOTS], at);
  }
  atomic_fetch_add(&over, 1);
  return 0;
}

static void *unmaps(void *which) {
  long other = 1 - (long)which;
  for (int round = 0; round < ROUNDS; round++) {
    char *at;
    while (!(at = atomic_load(&slots[other][round % SLOTS]))) sched_yield();
    atomic_store(&slots[other][round % SLOTS], 0);
    size_t pages = at[1];
    for (size_t page = 0; page < pages; page++)
      atomic_fetch_add(&wrong_tag, at[page * PAGE] != (char)(round % 100 + 1));
    atomic_fetch_add(&refused_calls, unmap(at, pages * PAGE) != 0);
  }
  atomic_fetch_add(&over, 1);
  return 0;
}

int main(void) {
  for (long which = 0; which < 2; which++) {
    pthread_t thread;
    if (pthread_create(&thread, 0, maps, (void *)which) || pthread_create(&thread, 0, unmaps, (void *)which)) {
      say("FAIL a thread\n");
      return 1;
    }
  }
  wait_until(&over, 4);
  check("memory that was not zeros", wrong_zero, 0);
  check("memory that was lost", wrong_tag, 0);
  check("calls that were refused", refused_calls, 0);
  return end();
}
