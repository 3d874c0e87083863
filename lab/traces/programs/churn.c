/* Threads that live on the allocator: what a server with many small and some large objects does to its memory.
 *
 * Each thread keeps a set of blocks alive, replaces them at random (most small, some large enough that glibc maps
 * them one by one), passes every few of them to a neighbour that frees them (so that arenas meet), and now and then
 * maps, fills, protects, gives back and unmaps a region of its own. Every thread has its own generator: a run does
 * the same work each time, in another interleaving.
 *
 * churn [threads] [rounds]        built with: cc -O2 -pthread -o churn churn.c
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { KEPT = 256, MOST_THREADS = 64, PAGE = 4096 };

static _Atomic(char *) mailbox[MOST_THREADS];
static int threads = 4, rounds = 1500;

struct worker {
    int number;
    uint64_t state, sum;
    pthread_t thread;
};

static uint64_t draw(struct worker *w)
{
    w->state ^= w->state << 13;
    w->state ^= w->state >> 7;
    w->state ^= w->state << 17;
    return w->state;
}

static size_t draw_size(struct worker *w)
{
    uint64_t pick = draw(w) % 100;
    if (pick < 80)
        return 16 + draw(w) % 2000;
    if (pick < 97)
        return 2000 + draw(w) % 60000;
    return 140000 + draw(w) % 400000; /* above the threshold: a mapping of its own */
}

static char *filled(struct worker *w, size_t size)
{
    char *block = malloc(size);
    if (!block)
        abort();
    for (size_t at = 0; at < size; at += PAGE)
        block[at] = (char)draw(w);
    return block;
}

static void region(struct worker *w)
{
    size_t pages = 4 + draw(w) % 28, size = pages * PAGE;
    char *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        abort();
    for (size_t page = 0; page < pages; page += 1 + draw(w) % 3)
        map[page * PAGE] = 1;
    if (mprotect(map, size / 2 / PAGE * PAGE, PROT_READ))
        abort();
    w->sum += (unsigned char)map[0];
    if (madvise(map + size / 2 / PAGE * PAGE, 2 * PAGE, MADV_DONTNEED))
        abort();
    w->sum += (unsigned char)map[size / 2 / PAGE * PAGE];
    if (munmap(map, size))
        abort();
}

static void *work(void *argument)
{
    struct worker *w = argument;
    char *kept[KEPT] = { 0 };
    for (int round = 0; round < rounds; round++) {
        unsigned slot = draw(w) % KEPT;
        free(kept[slot]);
        kept[slot] = filled(w, draw_size(w));
        if (round % 8 == 0) {
            char *mine = filled(w, draw_size(w));
            free(atomic_exchange(&mailbox[(w->number + 1) % threads], mine));
        }
        if (round % 10 == 0)
            region(w);
    }
    for (int slot = 0; slot < KEPT; slot++)
        free(kept[slot]);
    return NULL;
}

int main(int count, char **words)
{
    static struct worker workers[MOST_THREADS];
    if (count > 1)
        threads = atoi(words[1]);
    if (count > 2)
        rounds = atoi(words[2]);
    if (threads < 1 || threads > MOST_THREADS || rounds < 1)
        return 2;
    uint64_t sum = 0;
    for (int i = 0; i < threads; i++) {
        workers[i] = (struct worker){ .number = i, .state = 0x9e3779b97f4a7c15u * (i + 1) };
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
            return 1;
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(workers[i].thread, NULL);
        sum += workers[i].sum;
    }
    printf("%d threads, %d rounds, sum %llu\n", threads, rounds, (unsigned long long)sum);
    return 0;
}
