# From the boot loader to Rust, on every CPU. AT&T syntax.
#
#   boot CPU:    32 bits at 1 MiB (PVH) -------------------+
#   other CPUs:  16 bits at 0x8000 (INIT-SIPI-SIPI) -> 32 -+-> long mode -> the upper half -> Rust
#
# The boot tables map the first 4 GiB at their own addresses and in the direct map, and the image's 1 GiB
# where it is linked, all of it writable and executable. Rust replaces them by tables made with the library;
# from then on the boot part is not mapped any more, except for CPUs that are still starting.

    .set PRESENT, 1
    .set WRITABLE, 2
    .set LARGE, 0x80

# The note by which a loader finds the 32-bit entry: PVH, XEN_ELFNOTE_PHYS32_ENTRY.
    .section .note.pvh, "a", @note
    .balign 4
    .long 4, 8, 18
    .asciz "Xen"
    .quad boot_entry

    .section .boot, "awx", @progbits
    .code32
    .global boot_entry
boot_entry:                             # ebx: what the loader has to say
    cli
    cld
    mov  %ebx, %edi
    xor  %esi, %esi                     # the boot CPU
    jmp  to_long_mode

other_cpu_32:
    mov  $0x10, %ax
    mov  %ax, %ds
    mov  %ax, %es
    mov  %ax, %ss
    mov  $1, %esi                       # another CPU

to_long_mode:
    mov  %cr4, %eax
    or   $0x620, %eax                   # PAE, OSFXSR, OSXMMEXCPT
    mov  %eax, %cr4
    mov  $boot_root, %eax
    mov  %eax, %cr3
    mov  $0xc0000080, %ecx              # EFER: SCE, LME, NXE
    rdmsr
    or   $0x901, %eax
    wrmsr
    mov  %cr0, %eax
    and  $~0x6, %eax                    # no emulation of the FPU
    or   $0x80050023, %eax              # PG, AM, WP, NE, MP, PE
    mov  %eax, %cr0
    lgdt boot_gdt_pointer
    ljmp $8, $long_mode

    .code64
long_mode:
    xor  %eax, %eax
    mov  %eax, %ds
    mov  %eax, %es
    mov  %eax, %ss
    mov  %eax, %fs
    mov  %eax, %gs
    mov  %edi, %edi
    test %esi, %esi
    jnz  1f
    movabs $boot_cpu_high, %rax
    jmp  *%rax
1:  movabs $other_cpu_high, %rax
    jmp  *%rax

    .balign 16
boot_gdt:
    .quad 0
    .quad 0x00af9a000000ffff            # 64-bit code
    .quad 0x00cf92000000ffff            # data
    .quad 0x00cf9a000000ffff            # 32-bit code
boot_gdt_pointer:
    .word 31
    .long boot_gdt
    .long 0

# Copied to 0x8000: where another CPU starts, in real mode.
    .balign 16
    .code16
    .global trampoline, trampoline_end
trampoline:
    cli
    xor  %ax, %ax
    mov  %ax, %ds
    lgdtl 0x8000 + (trampoline_gdt_pointer - trampoline)
    mov  %cr0, %eax
    or   $1, %eax
    mov  %eax, %cr0
    ljmpl $0x18, $other_cpu_32
    .balign 8
trampoline_gdt_pointer:
    .word 31
    .long boot_gdt
trampoline_end:
    .code64

    .balign 4096
boot_root:
    .quad boot_low + PRESENT + WRITABLE
    .fill 255, 8, 0
    .quad boot_direct + PRESENT + WRITABLE
    .fill 254, 8, 0
    .quad boot_image + PRESENT + WRITABLE
boot_low:
    .set i, 0
    .rept 4
    .quad boot_pages + 0x1000 * i + PRESENT + WRITABLE
    .set i, i + 1
    .endr
    .fill 508, 8, 0
    .global boot_direct                 # Rust adds to it what lies beyond 4 GiB
boot_direct:
    .set i, 0
    .rept 4
    .quad boot_pages + 0x1000 * i + PRESENT + WRITABLE
    .set i, i + 1
    .endr
    .fill 508, 8, 0
boot_image:
    .fill 510, 8, 0
    .quad boot_pages + PRESENT + WRITABLE
    .quad 0
boot_pages:
    .set i, 0
    .rept 2048
    .quad (i << 21) | PRESENT | WRITABLE | LARGE
    .set i, i + 1
    .endr

    .section .text.boot, "ax", @progbits
    .code64
boot_cpu_high:
    lea  BOOT_STACK + 4096 + 65536(%rip), %rsp
    xor  %ebp, %ebp
    call boot_cpu_main                  # rdi: what the loader has to say
    ud2

other_cpu_high:
    mov  other_cpu_root(%rip), %rax     # the tables made with the library
    mov  %rax, %cr3
    mov  other_cpu_stack(%rip), %rsp
    xor  %ebp, %ebp
    call other_cpu_main
    ud2
