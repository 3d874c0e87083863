/* Corners of Linux's memory calls that a replay must explain, one for each word on the command line. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096ul
#define HUGE (2ul << 20)
#define RW (PROT_READ | PROT_WRITE)
#define PRIVATE (MAP_PRIVATE | MAP_ANONYMOUS)

enum { DONTNEED_LOCKED = 24, GUARD_INSTALL = 102, GUARD_REMOVE = 103 };

static char *fresh(unsigned long bytes) { return mmap(NULL, bytes, RW, PRIVATE, -1, 0); }

/* Private memory whose first byte lies on a boundary of 2 MiB. */
static char *fresh_aligned(unsigned long bytes)
{
    char *room = mmap(NULL, bytes + HUGE, PROT_NONE, PRIVATE | MAP_NORESERVE, -1, 0);
    char *at = (char *)(((uintptr_t)room + HUGE - 1) & ~(HUGE - 1));
    return mmap(at, bytes, RW, PRIVATE | MAP_FIXED, -1, 0);
}

/* Accesses that may be refused: a jump goes past them. */
static __thread sigjmp_buf past;
static void jump(int signal) { siglongjmp(past, signal); }
static void load(volatile char *at) { if (!sigsetjmp(past, 1)) (void)*at; }
static void store(volatile char *at) { if (!sigsetjmp(past, 1)) *at = 1; }
static void again(int unused) { (void)unused; }

static void on_fault(void (*handler)(int))
{
    struct sigaction action = { .sa_handler = handler };
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
}

/* Processes end while their threads are in calls, which then end too. */
static volatile int rounds;
static void *map_and_unmap(void *unused)
{
    for (;;) {
        char *at = fresh(4 * PAGE);
        if (at == MAP_FAILED)
            continue;
        at[0] = 1;
        mprotect(at, PAGE, PROT_READ);
        madvise(at, PAGE, MADV_DONTDUMP);
        munmap(at, 4 * PAGE);
        rounds++;
    }
    return unused;
}
static void killed_in_calls(void)
{
    for (int turn = 0; turn < 40; turn++) {
        if (fork() == 0) {
            pthread_t thread;
            for (int i = 0; i < 3; i++)
                pthread_create(&thread, NULL, map_and_unmap, NULL);
            while (rounds < 20)
                usleep(20);
            _exit(0);
        }
        wait(NULL);
    }
}

/* One thread takes and gives rights, two store all the time; a store that is refused is tried again. */
static char *volatile shared;
static volatile int over;
static void *keep_storing(void *which)
{
    while (!over)
        for (int page = 0; page < 8; page++)
            shared[page * PAGE + (long)which] = 1;
    return NULL;
}
static void rights_given(void)
{
    pthread_t threads[2];
    shared = fresh(8 * PAGE);
    on_fault(again);
    for (long i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, keep_storing, (void *)i);
    for (int turn = 0; turn < 2000; turn++) {
        mprotect(shared, 8 * PAGE, turn & 1 ? PROT_NONE : PROT_READ);
        for (volatile int wait = 0; wait < 300; wait++) ;
        mprotect(shared, 8 * PAGE, RW);
        for (volatile int wait = 0; wait < 300; wait++) ;
    }
    over = 1;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

/* Calls from a page of ours across what the kernel maps into each program. */
static void across_special(void)
{
    unsigned long start, end;
    char line[256];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps))
        if (strstr(line, "[vvar") && sscanf(line, "%lx-%lx", &start, &end) == 2)
            break;
    fclose(maps);
    char *at = (char *)start - PAGE;
    mmap(at, PAGE, RW, PRIVATE | MAP_FIXED_NOREPLACE, -1, 0);
    unsigned long bytes = end - start + PAGE;
    mprotect(at, bytes, PROT_READ);
    mprotect(at, bytes, RW);
    mprotect(at, bytes, PROT_READ);
    mprotect(at, bytes, RW);
    madvise(at, bytes, MADV_COLD);
    madvise(at, bytes, MADV_POPULATE_READ);
    madvise(at, bytes, MADV_POPULATE_WRITE);
    madvise(at, bytes, MADV_DODUMP);
    madvise(at, bytes, MADV_DONTDUMP);
    madvise(at, bytes, MADV_DODUMP);
    mprotect((char *)start, PAGE, PROT_NONE);
    munmap((char *)start, PAGE);
}

/* A file that was opened to be read stays so, and what lies before it has changed. */
static void read_only_file(void)
{
    int file = open("/proc/self/exe", O_RDONLY);
    char *room = mmap(NULL, 4 * PAGE, PROT_READ, PRIVATE, -1, 0);
    char *at = mmap(room + PAGE, 2 * PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, file, 0);
    load(at);
    mprotect(at, 2 * PAGE, RW);
    mprotect(room, 4 * PAGE, RW);
    room[0] = 1;
    on_fault(jump);
    store(at);
    store(room + 3 * PAGE);
}

/* A region with a table is dropped whole, then loaded, then stored to. */
static void table_emptied(void)
{
    char *at = fresh_aligned(HUGE);
    madvise(at, HUGE, MADV_HUGEPAGE);
    at[0] = 1;
    mprotect(at + PAGE, PAGE, PROT_READ);
    mprotect(at + PAGE, PAGE, RW);
    madvise(at, HUGE, MADV_DONTNEED);
    load(at + 3 * PAGE);
    at[9 * PAGE] = 7;
    for (int page = 0; page < 512; page++)
        load(at + page * PAGE);
}

/* Rights cut a region that was loaded, then it is stored to: with huge pages all of it was present. */
static void cut_after_load(void)
{
    char *at = fresh_aligned(HUGE), *other = fresh_aligned(HUGE);
    load(at);
    other[0] = 1;
    mprotect(at + HUGE / 2, PAGE, PROT_READ);
    mprotect(other + HUGE / 2, PAGE, PROT_READ);
    for (int page = 1; page < 20; page++)
        at[page * PAGE] = other[page * PAGE] = page;
    madvise(other, HUGE / 4, MADV_DONTNEED);
    for (int page = 1; page < 20; page++)
        other[page * PAGE] = other[HUGE / 4 + page * PAGE] = page;
}

/* A store to memory that may only be read, which the handler allows. */
static void store_refused(void)
{
    char *at = fresh(2 * PAGE);
    on_fault(jump);
    at[0] = 1;
    mprotect(at, 2 * PAGE, PROT_READ);
    store(at);
    store(at + PAGE);
    mprotect(at, 2 * PAGE, RW);
    store(at);
    store(at + PAGE);
}

/* Parts of a file grow and have to move. */
static void file_moved(void)
{
    char name[] = "/tmp/interleaf-cornersXXXXXX";
    int file = mkstemp(name);
    unlink(name);
    if (ftruncate(file, 8 * HUGE))
        _exit(3);
    char *at = mmap(NULL, HUGE + PAGE, RW, MAP_SHARED, file, 0);
    char *small = mmap(NULL, 2 * PAGE, RW, MAP_PRIVATE, file, 3 * PAGE);
    at[0] = small[0] = 1;
    fresh(PAGE);
    mmap(at + HUGE + PAGE, PAGE, PROT_NONE, PRIVATE | MAP_FIXED_NOREPLACE, -1, 0);
    mmap(small + 2 * PAGE, PAGE, PROT_NONE, PRIVATE | MAP_FIXED_NOREPLACE, -1, 0);
    at = mremap(at, HUGE + PAGE, 2 * HUGE + 3 * PAGE, MREMAP_MAYMOVE);
    small = mremap(small, 2 * PAGE, 2 * HUGE, MREMAP_MAYMOVE);
    at[PAGE] = small[PAGE] = 1;
}

/* Pages move, and the mapping that they leave stays. */
static void left_behind(void)
{
    char *at = fresh(2 * PAGE), *hint = fresh(16 * PAGE);
    at[0] = 4;
    char *there = mremap(at, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
    there[0] += at[0];
    munmap(hint, 16 * PAGE);
    there = mremap(there, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, hint + 4 * PAGE);
    there[PAGE] = 1;
}

static void guards(void)
{
    char *at = fresh(8 * PAGE);
    on_fault(jump);
    memset(at, 5, 8 * PAGE);
    if (madvise(at + 2 * PAGE, 2 * PAGE, GUARD_INSTALL))
        return;
    load(at + 2 * PAGE);
    store(at + 3 * PAGE);
    store(at + PAGE);
    madvise(at, 8 * PAGE, MADV_DONTNEED);
    store(at + 2 * PAGE);
    mprotect(at, 8 * PAGE, PROT_READ);
    mprotect(at, 8 * PAGE, RW);
    store(at + 2 * PAGE);
    if (fork() == 0) {
        store(at + 2 * PAGE);
        madvise(at + 2 * PAGE, PAGE, GUARD_REMOVE);
        store(at + 2 * PAGE);
        store(at + 3 * PAGE);
        _exit(0);
    }
    wait(NULL);
    madvise(at, 8 * PAGE, MADV_POPULATE_WRITE);
    char *there = mremap(at, 8 * PAGE, 16 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, fresh(16 * PAGE));
    store(there + 3 * PAGE);
    madvise(there, 3 * PAGE, GUARD_REMOVE);
    store(there + 2 * PAGE);
    store(there + 3 * PAGE);
    munmap(there + 3 * PAGE, PAGE);
    mmap(there + 3 * PAGE, PAGE, RW, PRIVATE | MAP_FIXED, -1, 0);
    store(there + 3 * PAGE);
}

/* Stacks of threads that grow, as far as they may. */
static int deeper(int levels)
{
    volatile char room[2 * PAGE];
    room[0] = levels;
    return levels ? deeper(levels - 1) + room[0] : 0;
}
static void *go_down(void *unused) { deeper(60); deeper(90); return unused; }
static void growing_stacks(void)
{
    pthread_t threads[3];
    int growing = PRIVATE | MAP_GROWSDOWN | MAP_STACK;
    for (int i = 0; i < 3; i++) {
        char *room = mmap(NULL, 1024 * PAGE, PROT_NONE, PRIVATE | MAP_NORESERVE, -1, 0);
        munmap(room, 1024 * PAGE);
        char *stack = mmap(room + 992 * PAGE, 32 * PAGE, RW, growing | MAP_FIXED, -1, 0);
        pthread_attr_t with;
        pthread_attr_init(&with);
        pthread_attr_setstack(&with, stack, 32 * PAGE);
        pthread_create(&threads[i], &with, go_down, NULL);
    }
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    char *above = mmap(NULL, 4 * PAGE, RW, growing, -1, 0), *below = fresh(PAGE);
    on_fault(jump);
    store(above - PAGE);
    store(below);
    deeper(50);
}

/* Memory that may only be executed: with protection keys a load of it is refused. */
static void execute_only(void)
{
    char *at = fresh(3 * PAGE), *key = fresh(2 * PAGE);
    on_fault(jump);
    at[0] = key[0] = 1;
    mprotect(at, 2 * PAGE, PROT_EXEC);
    load(at);
    load(at + PAGE);
    store(at);
    int number = pkey_alloc(0, PKEY_DISABLE_ACCESS);
    if (number >= 0 && !pkey_mprotect(key, 2 * PAGE, RW, number)) {
        store(key);
        store(key + PAGE);
        pkey_set(number, 0);
        store(key);
        store(key + PAGE);
    }
}

/* The kernel writes the frame of a handler to a stack that is not there yet. */
static void frame_on_absent_stack(void)
{
    for (int turn = 0; turn < 16; turn++) {
        stack_t stack = { .ss_sp = fresh(16 * PAGE), .ss_size = 16 * PAGE - turn * 256 };
        struct sigaction action = { .sa_handler = again, .sa_flags = SA_ONSTACK };
        sigaltstack(&stack, NULL);
        sigaction(SIGUSR1, &action, NULL);
        raise(SIGUSR1);
    }
}

static void locked_dropped(void)
{
    char *at = fresh(4 * PAGE);
    mlock(at + 2 * PAGE, PAGE);
    memset(at, 4, 4 * PAGE);
    madvise(at, 4 * PAGE, DONTNEED_LOCKED);
    memset(at, 4, 4 * PAGE);
}

int main(int count, char **words)
{
    struct { const char *name; void (*run)(void); } corners[] = {
        { "killed_in_calls", killed_in_calls }, { "rights_given", rights_given },
        { "across_special", across_special }, { "read_only_file", read_only_file },
        { "table_emptied", table_emptied }, { "cut_after_load", cut_after_load },
        { "store_refused", store_refused }, { "file_moved", file_moved }, { "left_behind", left_behind },
        { "guards", guards }, { "growing_stacks", growing_stacks }, { "execute_only", execute_only },
        { "frame_on_absent_stack", frame_on_absent_stack }, { "locked_dropped", locked_dropped },
    };
    for (unsigned i = 0; count > 1 && i < sizeof corners / sizeof *corners; i++)
        if (!strcmp(words[1], corners[i].name)) {
            corners[i].run();
            return 0;
        }
    return 2;
}
