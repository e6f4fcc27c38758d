/* addresses - where the allocator puts things.
 *
 *   addresses [STEPS]
 *
 * A deterministic program of one thread: STEPS (default 20000) steps of malloc, calloc, realloc,
 * memalign and free, over sizes of 1 byte to 2 MiB, at random from a fixed seed. It then prints one
 * line for each object it was given, in order: the step, the call, the size and the address. Run
 * with address randomization off (`setarch -R`), two runs print the same text exactly when the
 * allocator laid the heap out the same way.
 *
 * The program itself never disturbs the heap: results wait in static memory and leave by write(2)
 * at the end. */
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SLOTS = 1500, STEPS_MAX = 1000000, SIZE_BITS_MAX = 21 };

enum call { CALL_MALLOC, CALL_CALLOC, CALL_REALLOC, CALL_MEMALIGN };

struct result {
    void *address;
    uint32_t size_bytes;
    uint32_t step : 28;
    uint32_t call : 4;
};

static const char *const call_names[] = {"malloc", "calloc", "realloc", "memalign"};
static void *slots[SLOTS];
static struct result results[STEPS_MAX];
static size_t results_count;
static uint64_t random_state = 88172645463325252u;

static uint64_t random_next(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

/* 1 .. 2 MiB: small ones mostly, every power of two reached, large ones seldom. */
static uint32_t random_size_bytes(void)
{
    uint64_t random = random_next();
    unsigned bits =
        (unsigned)(random % 100 < 97 ? (random >> 8) % 13 : (random >> 8) % (SIZE_BITS_MAX + 1));
    return 1 + (uint32_t)((random >> 32) & ((1u << bits) - 1));
}

static size_t random_alignment_bytes(void)
{
    return (size_t)8 << (random_next() % 10); /* 8 .. 4096 */
}

static void die(const char *what)
{
    if (write(STDERR_FILENO, what, strlen(what)) < 0) _exit(2);
    _exit(1);
}

static void result_add(uint32_t step, enum call call, uint32_t size_bytes, void *address)
{
    if (!address) die("addresses: out of memory\n");
    memset(address, (int)step, size_bytes < 64 ? size_bytes : 64);
    results[results_count++] = (struct result){
        .address = address, .size_bytes = size_bytes, .step = step & 0xfffffff, .call = call & 0xf};
}

static void step_take(uint32_t step)
{
    void **slot = &slots[random_next() % SLOTS];
    uint32_t size_bytes = random_size_bytes();
    enum call call = CALL_MALLOC;
    switch (random_next() % 8) {
    case 0:
        free(*slot);
        *slot = NULL;
        return;
    case 1:
        call = CALL_REALLOC;
        *slot = realloc(*slot, size_bytes);
        break;
    case 2:
        call = CALL_MEMALIGN;
        free(*slot);
        *slot = memalign(random_alignment_bytes(), size_bytes);
        break;
    case 3:
        call = CALL_CALLOC;
        free(*slot);
        *slot = calloc(1, size_bytes);
        break;
    default: free(*slot); *slot = malloc(size_bytes);
    }
    result_add(step, call, size_bytes, *slot);
}

static void text_write(const char *text, size_t length)
{
    while (length > 0) {
        ssize_t written = write(STDOUT_FILENO, text, length);
        if (written <= 0) die("addresses: cannot write\n");
        text += written;
        length -= (size_t)written;
    }
}

/* snprintf of plain integers and strings allocates nothing. */
static void results_print(void)
{
    static char text[1 << 16];
    size_t length = 0;
    for (size_t i = 0; i < results_count; i++) {
        const struct result *result = &results[i];
        length += (size_t)snprintf(text + length, sizeof text - length, "%u %s %u %p\n",
                                   (unsigned)result->step, call_names[result->call],
                                   result->size_bytes, result->address);
        if (length > sizeof text - 128) {
            text_write(text, length);
            length = 0;
        }
    }
    text_write(text, length);
}

int main(int count, char **words)
{
    unsigned long steps = count > 1 ? strtoul(words[1], NULL, 10) : 20000;
    if (count > 2 || steps < 1 || steps > STEPS_MAX) die("usage: addresses [STEPS]\n");
    for (uint32_t step = 0; step < steps; step++)
        step_take(step);
    for (size_t i = 0; i < SLOTS; i++)
        free(slots[i]);
    results_print();
    return 0;
}
