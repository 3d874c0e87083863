// si_code and si_addr of page faults, and what the context says of them.
#include "answers.h"
static void want(const char *n, long got, long what, void *addr, long err) {
  IS(n, got, what);
  IS("  its address", f_addr, addr);
  IS("  its error code", f_err, err);
  IS("  its trap", f_trap, 14);
  IS("  its cr2", f_cr2, addr);
}
static __attribute__((noinline)) long try_exec(char *p) {
  in_probe = 1;
  long r = 0;
  if (sigsetjmp(jb, 1) == 0) ((void (*)(void))p)(); else r = f_sig * 1000 + f_code;
  in_probe = 0;
  return r;
}
int main(void) {
  catch_faults();
  char *p = anon(6 * PG, RW, AP);
  munmap(p + PG, PG);
  p[2 * PG] = 0xc3;
  want("read of nothing", try_read(p + PG + 5), MAPERR, p + PG + 5, 4);
  want("write to nothing", try_write(p + PG + 4095, 1), MAPERR, p + PG + 4095, 6);
  want("null", try_read((char *)8), MAPERR, (void *)8, 4);
  mprotect(p + 2 * PG, PG, PROT_READ);
  want("write to a page that is read only", try_write(p + 2 * PG + 1, 1), ACCERR, p + 2 * PG + 1, 7);
  want("execute data that is there", try_exec(p + 2 * PG), ACCERR, p + 2 * PG, 0x15);
  mprotect(p + 3 * PG, PG, PROT_READ);
  want("write to a read only page that is not there", try_write(p + 3 * PG, 1), ACCERR, p + 3 * PG, 6);
  want("execute data that is not there", try_exec(p + 3 * PG), ACCERR, p + 3 * PG, 0x15);   // Linux maps the zero page first
  mprotect(p + 4 * PG, PG, PROT_NONE);
  want("read of no rights", try_read(p + 4 * PG), ACCERR, p + 4 * PG, 4);
  want("execute nothing", try_exec(p + PG), MAPERR, p + PG, 0x14);
  p[5 * PG] = 0xc3;
  mprotect(p + 5 * PG, PG, PROT_NONE);
  long r = try_read(p + 5 * PG);
  IS("no rights, with a page", r, ACCERR);
  say("error code there %#lx\n", f_err);
  mprotect(p + 5 * PG, PG, PROT_READ | PROT_EXEC);
  IS("execute with the right", try_exec(p + 5 * PG), 0);
  IS("write", try_write(p + 5 * PG, 1), ACCERR);
  // An access that straddles two pages is reported where it fails.
  in_probe = 1;
  if (sigsetjmp(jb, 1) == 0) { *(volatile long *)(p + PG - 3) = 1; f_addr = 0; }
  in_probe = 0;
  IS("straddling write fails at the second page", f_addr, p + PG);
  IS("nothing was written", p[PG - 3], 0);
  return done();
}
