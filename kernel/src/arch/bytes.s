# memcpy, memmove, memset: 16 bytes at a time, the ends overlapping, so that no length needs a tail of single
# bytes. For the dozens to hundreds of bytes that the library moves this takes fewer instructions than `rep`,
# which counts and starts slowly; whole frames go through Machine::zero and Machine::copy. AT&T syntax.

    .section .text.bytes, "ax", @progbits
    .code64

# fn memmove(to: rdi, from: rsi, len: rdx) -> to
    .balign 16
    .global memmove
memmove:
    mov  %rdi, %rcx
    sub  %rsi, %rcx
    cmp  %rdx, %rcx
    jb   backward                       # `to` lies inside of what is read
    .global memcpy
memcpy:
    mov  %rdi, %rax
    cmp  $16, %rdx
    jb   short_move
    movups -16(%rsi,%rdx), %xmm1        # the end, before anything is written over it
    lea  -16(%rdx), %r8                 # bytes before the end
    xor  %ecx, %ecx
    sub  $48, %r8
    jle  2f
1:  movups (%rsi,%rcx), %xmm2
    movups 16(%rsi,%rcx), %xmm3
    movups 32(%rsi,%rcx), %xmm4
    movups %xmm2, (%rdi,%rcx)
    movups %xmm3, 16(%rdi,%rcx)
    movups %xmm4, 32(%rdi,%rcx)
    add  $48, %rcx
    cmp  %r8, %rcx
    jl   1b
2:  add  $48, %r8
3:  cmp  %r8, %rcx
    jge  4f
    movups (%rsi,%rcx), %xmm2
    movups %xmm2, (%rdi,%rcx)
    add  $16, %rcx
    jmp  3b
4:  movups %xmm1, (%rdi,%r8)
    ret

backward:
    mov  %rdi, %rax
    cmp  $16, %rdx
    jb   short_move
    movups (%rsi), %xmm1                # the beginning, before anything is written over it
    lea  -16(%rdx), %rcx
1:  movups (%rsi,%rcx), %xmm2
    movups %xmm2, (%rdi,%rcx)
    sub  $16, %rcx
    jg   1b
    movups %xmm1, (%rdi)
    ret

# Below 16 bytes: everything is read before anything is written.
short_move:
    cmp  $8, %rdx
    jb   1f
    mov  (%rsi), %rcx
    mov  -8(%rsi,%rdx), %r8
    mov  %rcx, (%rdi)
    mov  %r8, -8(%rdi,%rdx)
    ret
1:  cmp  $4, %rdx
    jb   2f
    mov  (%rsi), %ecx
    mov  -4(%rsi,%rdx), %r8d
    mov  %ecx, (%rdi)
    mov  %r8d, -4(%rdi,%rdx)
    ret
2:  test %rdx, %rdx
    jz   3f
    movzbl (%rsi), %ecx                 # 1 to 3 bytes: first, middle, last
    movzbl -1(%rsi,%rdx), %r9d
    mov  %rdx, %r10
    shr  $1, %r10
    movzbl (%rsi,%r10), %r8d
    mov  %cl, (%rdi)
    mov  %r8b, (%rdi,%r10)
    mov  %r9b, -1(%rdi,%rdx)
3:  ret

# fn memset(to: rdi, byte: esi, len: rdx) -> to
    .balign 16
    .global memset
memset:
    mov  %rdi, %rax
    movzbl %sil, %esi
    movabs $0x0101010101010101, %rcx
    imul %rcx, %rsi
    cmp  $16, %rdx
    jb   5f
    movq %rsi, %xmm1
    punpcklqdq %xmm1, %xmm1
    lea  -16(%rdx), %r8
    xor  %ecx, %ecx
    sub  $64, %r8
    jle  2f
1:  movups %xmm1, (%rdi,%rcx)
    movups %xmm1, 16(%rdi,%rcx)
    movups %xmm1, 32(%rdi,%rcx)
    movups %xmm1, 48(%rdi,%rcx)
    add  $64, %rcx
    cmp  %r8, %rcx
    jl   1b
2:  add  $64, %r8
3:  cmp  %r8, %rcx
    jge  4f
    movups %xmm1, (%rdi,%rcx)
    add  $16, %rcx
    jmp  3b
4:  movups %xmm1, (%rdi,%r8)
    ret
5:  cmp  $8, %rdx
    jb   6f
    mov  %rsi, (%rdi)
    mov  %rsi, -8(%rdi,%rdx)
    ret
6:  test %rdx, %rdx
    jz   7f
    mov  %sil, (%rdi)
    inc  %rdi
    dec  %rdx
    jmp  6b
7:  ret
    .text
