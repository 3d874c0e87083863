# How the kernel is entered and left. AT&T syntax. docs/design/kernel.md has the reasons.
#
# Every vector enters on a stack of its own (IST), because the interrupted kernel code may use the 128 bytes
# below its stack pointer (the red zone), which the CPU would overwrite. The stub copies the CPU's frame to
# its place and leaves the stack of the vector before anything can interrupt it:
#
#   from ring 3:   to the top of the thread's kernel stack
#   from ring 0:   below the red zone of the interrupted code, aligned
#
# A frame, from high to low: ss rsp rflags cs rip | error vector | rax rcx rdx rsi rdi r8 ... r11 |
# rbx rbp r12 ... r15. Below it 512 bytes of fxsave: compiled kernel code uses SSE.

    .section .text.trap, "ax", @progbits
    .code64

    .set KERNEL_STACK, 8                # PerCpu::kernel_stack
    .set USER_RSP, 16                   # PerCpu::user_rsp
    .set STACK_LIMIT, 24                # PerCpu::stack_limit

# rflags as the kernel has them: interrupts, direction, trap and alignment checks off.
    .macro clear_flags
    pushq $2
    popfq
    .endm

# Registers that a call may change, but for rax and rcx.
    .macro push_scratch
    push %rdx
    push %rsi
    push %rdi
    push %r8
    push %r9
    push %r10
    push %r11
    .endm

    .macro pop_scratch
    pop  %r11
    pop  %r10
    pop  %r9
    pop  %r8
    pop  %rdi
    pop  %rsi
    pop  %rdx
    pop  %rcx
    pop  %rax
    .endm

    .macro push_registers
    push_scratch
    push %rbx
    push %rbp
    push %r12
    push %r13
    push %r14
    push %r15
    .endm

    .macro save_sse
    sub  $512, %rsp
    fxsave64 (%rsp)
    ldmxcsr kernel_mxcsr(%rip)
    .endm

    .macro pop_registers
    fxrstor64 (%rsp)
    add  $512, %rsp
    pop  %r15
    pop  %r14
    pop  %r13
    pop  %r12
    pop  %rbp
    pop  %rbx
    pop_scratch
    .endm

# Copies the CPU's frame at rcx, and the words pushed below it, to the frame's own stack.
    .macro push_frame
    pushq 64(%rcx)                      # ss
    pushq 56(%rcx)                      # rsp
    pushq 48(%rcx)                      # rflags
    pushq 40(%rcx)                      # cs
    pushq 32(%rcx)                      # rip
    pushq 24(%rcx)                      # error
    .endm

# One stub for each vector, 16 bytes apart. 8, 10 to 14, 17, 21, 29 and 30 push an error code themselves.
    .balign 16
    .global trap_stubs
trap_stubs:
    .set vector, 0
    .rept 256
    .balign 16
    .if (vector == 8) || ((vector >= 10) && (vector <= 14)) || (vector == 17) || (vector == 21) || (vector == 29) || (vector == 30)
    .else
    pushq $0
    .endif
    .byte 0x68                          # pushq with 32 bits: all stubs have one length
    .long vector
    .if (vector == 2) || (vector == 8) || (vector == 18)
    jmp  fatal_entry
    .elseif vector == 14
    jmp  page_fault_entry
    .else
    jmp  trap_entry
    .endif
    .set vector, vector + 1
    .endr

trap_entry:                             # vector error rip cs rflags rsp ss
    push %rax
    push %rcx
    mov  %rsp, %rcx                     # rcx rax vector error rip cs rflags rsp ss
    testb $3, 40(%rcx)
    jz   1f
    swapgs
    mov  %gs:KERNEL_STACK, %rsp
2:  push_frame
    pushq 16(%rcx)
    pushq 8(%rcx)
    pushq (%rcx)
    push_registers
    save_sse
    clear_flags
    mov  %rsp, %rdi
    call trap_handler
    .global trap_return
trap_return:                            # rsp: fxsave, registers, frame; interrupts are off
    pop_registers
    add  $16, %rsp                      # vector, error
    testb $3, 8(%rsp)
    jz   3f
    swapgs
3:  iretq
from_ring_0:
1:  mov  56(%rcx), %rsp                 # the interrupted stack, below its red zone
    sub  $128, %rsp
    and  $-16, %rsp
    cmp  %gs:STACK_LIMIT, %rsp
    ja   2b
    mov  %rcx, %rsp                     # no room: stay on the vector's stack and say so
    pop  %rcx
    pop  %rax

# Page faults of ring 3, the most frequent entry: registers that calls keep stay in place, and interrupts go
# on at once. The frame holds the address in place of the vector. If there is more to do than to return, the
# frame is completed.
page_fault_entry:
    push %rax
    push %rcx
    mov  %rsp, %rcx
    testb $3, 40(%rcx)
    jz   from_ring_0
    swapgs
    mov  %gs:KERNEL_STACK, %rsp
    push_frame
    mov  %cr2, %rax
    push %rax
    pushq 8(%rcx)
    pushq (%rcx)
    push_scratch
    sub  $48 + 512, %rsp
    fxsave64 (%rsp)
    ldmxcsr kernel_mxcsr(%rip)
    pushq $0x202                        # interrupts on; the rest as in clear_flags
    popfq
    lea  512(%rsp), %rdi
    call user_fault_handler             # eax: 0 to go back; interrupts are off again
    test %eax, %eax
    jnz  1f
    fxrstor64 (%rsp)
    add  $512 + 48, %rsp
    pop_scratch
    add  $16, %rsp
    swapgs
    iretq
1:  lea  512(%rsp), %rdi
    mov  %r15, (%rdi)
    mov  %r14, 8(%rdi)
    mov  %r13, 16(%rdi)
    mov  %r12, 24(%rdi)
    mov  %rbp, 32(%rdi)
    mov  %rbx, 40(%rdi)
    mov  %rsp, %rdi
    mov  %eax, %esi
    call user_fault_unfinished
    jmp  trap_return

# Entries that never return: double fault, machine check, NMI, a full stack. They stay on the vector's stack.
fatal_entry:
    push %rax
    push %rcx
    push_registers
    clear_flags
    testb $3, 144(%rsp)
    jz   1f
    swapgs
1:  mov  %rsp, %rdi
    and  $-16, %rsp
    call fatal_handler
    ud2

# System calls: rax the number; rdi rsi rdx r10 r8 r9 the arguments; the instruction puts rip into rcx and
# rflags into r11.
    .global syscall_entry
syscall_entry:
    swapgs
    mov  %rsp, %gs:USER_RSP
    mov  %gs:KERNEL_STACK, %rsp
    pushq $0x1b                         # ss
    pushq %gs:USER_RSP
    push %r11
    pushq $0x23                         # cs
    push %rcx
    pushq $0
    push %rax                           # in the place of the vector: the number
    push %rax
    push %rcx
    push_registers
    save_sse
    mov  %rsp, %rdi
    call syscall_handler                # al: 0 where rcx and r11 still are rip and rflags
    test %al, %al
    jnz  trap_return
    pop_registers
    mov  40(%rsp), %rsp                 # over vector, error, rip, cs, rflags
    swapgs
    sysretq

# fn switch_stacks(save: *mut u64, load: u64): stores this stack's pointer in *save and loads `load` as the
# new one.
    .global switch_stacks
switch_stacks:
    push %rbx
    push %rbp
    push %r12
    push %r13
    push %r14
    push %r15
    mov  %rsp, (%rdi)
    mov  %rsi, %rsp
    pop  %r15
    pop  %r14
    pop  %r13
    pop  %r12
    pop  %rbp
    pop  %rbx
    ret

# Where a new kernel thread begins: rbx is its function, r12 the argument.
    .global kernel_thread_entry
kernel_thread_entry:
    mov  %rbx, %rdi
    mov  %r12, %rsi
    xor  %ebp, %ebp
    call kernel_thread_begins
    ud2

# Where a new thread of a program begins: a frame for trap_return lies on the stack.
    .global user_thread_entry
user_thread_entry:
    call user_thread_begins
    jmp  trap_return

# fn copy_user(to, from, len) -> bytes not copied. A page fault that cannot be resolved between copy_user and
# copy_user_end goes on at copy_user_failed.
    .global copy_user, copy_user_end, copy_user_failed
copy_user:
    mov  %rdx, %rcx
    rep movsb
copy_user_end:
copy_user_failed:
    mov  %rcx, %rax
    ret

# fn load_user(at) -> (value, whether it could be loaded): as user code loads, but for the ring.
    .global load_user, load_user_end, load_user_failed
load_user:
    mov  (%rdi), %rax
load_user_end:
    mov  $1, %edx
    ret
load_user_failed:
    xor  %eax, %eax
    xor  %edx, %edx
    ret

    .section .rodata.trap, "a", @progbits
    .balign 4
kernel_mxcsr:
    .long 0x1f80
    .text
