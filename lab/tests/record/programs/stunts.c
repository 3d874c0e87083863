/* What a recorder can trip over, one stunt for each word on the command line. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void *sleep_on(void *unused) { for (;;) pause(); return unused; }
static void *run_true(void *unused) { execlp("true", "true", NULL); return unused; }
static void leave(int signal) { _exit(40 + signal); }

/* A thread that is not the first executes a program while another sleeps. */
static void exec_from_thread(void)
{
    pthread_t sleeper, other;
    pthread_create(&sleeper, NULL, sleep_on, NULL);
    pthread_create(&other, NULL, run_true, NULL);
    pthread_join(other, NULL);
}

/* A child in the same memory that executes, and one that only leaves. */
static void spawn(void)
{
    pid_t child;
    char *words[] = { "true", NULL };
    posix_spawnp(&child, "true", NULL, NULL, words, environ);
    waitpid(child, NULL, 0);
    if (vfork() == 0)
        _exit(0);
    wait(NULL);
}

/* Killed with a thread asleep: nobody can say goodbye. */
static void die(void)
{
    pthread_t sleeper;
    pthread_create(&sleeper, NULL, sleep_on, NULL);
    kill(getpid(), SIGKILL);
}

static void segfault(void)
{
    signal(SIGSEGV, leave);
    *(volatile char *)0x1234 = 1;
}

/* 256 + 64 + 128 pages without an exception, and two kernel faults that come to nothing. */
static void populate(void)
{
    int rights = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
    int pipes[2];
    mmap(NULL, 256 * 4096, rights, flags | MAP_POPULATE, -1, 0);
    char *map = mmap(NULL, 256 * 4096, rights, flags, -1, 0);
    mlock(map, 64 * 4096);
    madvise(map + 128 * 4096, 128 * 4096, 23 /* MADV_POPULATE_WRITE */);
    if (pipe(pipes) == 0 && write(pipes[1], (char *)8, 8) < 0 && write(pipes[1], (char *)16, 8) < 0)
        return;
    _exit(9);
}

/* The kernel writes into fresh memory for us. */
static void kernel_writes(void)
{
    char *map = mmap(NULL, 64 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int pipes[2];
    if (pipe(pipes))
        _exit(9);
    for (int page = 0; page < 64; page++)
        if (write(pipes[1], "x", 1) != 1 || read(pipes[0], map + page * 4096, 1) != 1)
            _exit(9);
}

/* The kernel looks up 64 untouched pages, which it lends to a pipe: no exception. */
static void by_hand(void)
{
    static char full[4 * 4096];
    char *map = mmap(NULL, 64 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int pipes[2];
    if (madvise(map, 64 * 4096, MADV_NOHUGEPAGE), pipe(pipes))
        _exit(9);
    for (int page = 0; page < 64; page += 4) {
        struct iovec four = { map + page * 4096, sizeof full };
        if (vmsplice(pipes[1], &four, 1, 0) != sizeof full || read(pipes[0], full, sizeof full) != sizeof full)
            _exit(9);
    }
}

/* The first thread leaves before the second. */
static void *late(void *unused) { usleep(20000); return unused; }
static void first_leaves(void)
{
    pthread_t other;
    pthread_create(&other, NULL, late, NULL);
    pthread_exit(NULL);
}

/* Stopped by a signal and continued by its child. */
static void stopped(void)
{
    pid_t self = getpid();
    if (fork() == 0) {
        usleep(20000);
        kill(self, SIGCONT);
        _exit(0);
    }
    raise(SIGSTOP);
    wait(NULL);
}

/* Two threads: one unmaps what the other touches, and is told by SIGSEGV. */
static char *volatile shared;
static void survive(int unused) { (void)unused; pthread_exit(NULL); }
static void *touch(void *unused)
{
    for (;;)
        for (int page = 0; page < 64; page++)
            shared[page * 4096] = 1;
    return unused;
}
static void pull_away(void)
{
    signal(SIGSEGV, survive);
    for (int turn = 0; turn < 200; turn++) {
        pthread_t other;
        shared = mmap(NULL, 64 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        pthread_create(&other, NULL, touch, NULL);
        usleep(turn * 3);
        munmap(shared, 64 * 4096);
        pthread_join(other, NULL);
    }
}

int main(int count, char **words)
{
    struct { const char *name; void (*run)(void); } stunts[] = {
        { "exec_from_thread", exec_from_thread }, { "spawn", spawn }, { "die", die }, { "segfault", segfault },
        { "populate", populate }, { "kernel_writes", kernel_writes }, { "first_leaves", first_leaves },
        { "stopped", stopped }, { "pull_away", pull_away }, { "by_hand", by_hand },
    };
    for (unsigned i = 0; count > 1 && i < sizeof stunts / sizeof *stunts; i++)
        if (!strcmp(words[1], stunts[i].name)) {
            stunts[i].run();
            return 0;
        }
    return 2;
}
