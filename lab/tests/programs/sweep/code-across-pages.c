// Code that runs into a page without the right to execute: SIGSEGV there, and on it goes once the right is given.
#include "sweep.h"

static volatile long count, address, code, at_instruction;
static char *second;

static void give_right(int signal, siginfo_t *info, void *context) {
  (void)signal;
  ucontext_t *user = context;
  count++;
  address = (long)info->si_addr;
  code = info->si_code;
  at_instruction = user->uc_mcontext.gregs[REG_RIP];
  if (count > 1 || protect(second, PAGE, PROT_READ | PROT_EXEC)) _exit(95);
}

static void run(const char *what, int flags, size_t before) {
  static const unsigned char MOV_42_RET[] = {0x48, 0xc7, 0xc0, 0x2a, 0, 0, 0, 0xc3};
  char *at = map(2 * PAGE, RW, flags);
  second = at + PAGE;
  char *start = second - before;
  memcpy(start, MOV_42_RET, sizeof MOV_42_RET);
  say("-- %s\n", what);
  check("the first page", protect(at, PAGE, PROT_READ | PROT_EXEC), 0);
  count = 0;
  check("what it returns", ((long (*)(void))start)(), 42);
  check("signals", count, 1);
  check("the address", address, (long)second);
  check("the code", code, SEGV_ACCERR);
  check("the instruction", at_instruction, (long)(before < 7 ? start : second));
  check("once more", ((long (*)(void))start)(), 42);
  check("without a signal", count, 1);
}

int main(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = give_right;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, 0);
  run("private, the return on the second page", PRIVATE, 7);
  run("shared, the return on the second page", SHARED, 7);
  run("private, one instruction on both", PRIVATE, 3);
  run("shared, one instruction on both", SHARED, 3);
  return end();
}
