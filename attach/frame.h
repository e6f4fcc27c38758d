/* frame - a signal frame that brings a stopped thread back to where it was, with all registers: what
 * rt_sigreturn(2) takes.
 *
 * It stands below what the thread is made to do. If whoever made it do that is killed, the thread
 * comes back by itself. */
#ifndef MALLOCTAPE_ATTACH_FRAME_H
#define MALLOCTAPE_ATTACH_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/user.h>

/* AVX-512 and what comes after it; SVE with vectors of 256 bytes. */
#define FRAME_VECTOR_BYTES 16384
#define FRAME_BYTES_MAX    (FRAME_VECTOR_BYTES + 1024)

/* What the thread was when it stopped. */
struct frame_state {
    struct user_regs_struct registers;
    unsigned char vectors[FRAME_VECTOR_BYTES]; /* as of registers_vectors_get() */
    size_t vectors_bytes;
    int vectors_kind;
    uint64_t blocked; /* signals */
};

struct frame {
    uint64_t start; /* where `bytes` have to be written */
    size_t bytes_used;
    unsigned char bytes[FRAME_BYTES_MAX] __attribute__((aligned(64)));
};

/* A frame that ends at or below `end`, with `restorer` to return to where that stands in frames. A
 * system call in which the thread was is made again; on x86-64 poll(2) and sleeps then end early, with
 * EINTR. */
void frame_make(struct frame *frame, const struct frame_state *state, uint64_t end,
                uint64_t restorer);

#endif
