/* frame - a signal frame, for rt_sigreturn(2), that returns a stopped thread to where it was, with
 * all registers.
 *
 * The code that the thread is made to run returns through this frame. So the thread goes back by
 * itself even if the process that controls it is killed. */
#ifndef MALLOCTAPE_ATTACH_FRAME_H
#define MALLOCTAPE_ATTACH_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/user.h>

/* Enough for AVX-512 and later extensions, and for SVE with vectors of 256 bytes. */
#define FRAME_VECTOR_BYTES 16384
#define FRAME_BYTES_MAX    (FRAME_VECTOR_BYTES + 1024)

/* The state of the thread when it stopped. */
struct frame_state {
    struct user_regs_struct registers;
    unsigned char vectors[FRAME_VECTOR_BYTES]; /* from registers_vectors_get() */
    size_t vectors_bytes;
    int vectors_kind;
    uint64_t blocked; /* signals */
};

struct frame {
    uint64_t start; /* the address in the process to which `bytes` must be written */
    size_t bytes_used;
    unsigned char bytes[FRAME_BYTES_MAX] __attribute__((aligned(64)));
};

/* Makes a frame that ends at or below address `end`. `restorer`: the return address in it, on
 * machines whose frames have one. A system call that the thread was in is made again, with all of
 * its time limit. */
void frame_make(struct frame *frame, const struct frame_state *state, uint64_t end,
                uint64_t restorer);

#endif
