/* fake_python.c - looks like CPython to the recorder, and is none.
 *
 *   fake_python version HEX       says that it is this version (0x030e00f0: 3.14)
 *   fake_python garbage SEED N    version 3.11, whose threads' states are anything: addresses of
 *                                 nothing, chains that go round or into pages that come and go;
 *                                 first those of a thread with the lock, of which none is right;
 *                                 then, after one that is, those of threads without it; at last
 *                                 those of a thread with it again, as while greenlet exchanges
 *                                 what is on the stack
 *
 * Prints how many objects of 4 711 bytes it has allocated. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { WORDS = 8192, PAGE_BYTES = 4096 };

uint64_t _PyRuntime[512];
uint64_t Py_Version = 0x030b02f0;

static uint64_t state_now[WORDS]; /* the thread's state, and all that it refers to */
static bool has_lock;
static uint64_t seed;
static char *comes_and_goes;
static uint64_t cframe[8]; /* what make_state() makes */

void *PyGILState_GetThisThreadState(void);
void *_PyThreadState_UncheckedGet(void);

void *PyGILState_GetThisThreadState(void)
{
    return state_now;
}

void *_PyThreadState_UncheckedGet(void)
{
    return has_lock ? state_now : NULL;
}

int _PyEval_EvalFrameDefault(bool is_there);

static uint64_t draw(uint64_t below)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed % below;
}

static uint64_t any_word(void)
{
    switch (draw(8)) {
    case 0: return draw(WORDS);
    case 1: return UINT64_C(0xffff800000000000) + draw(1 << 20);
    case 2: return ~draw(16);
    case 3: return (uintptr_t)comes_and_goes + 8 * draw(2 * PAGE_BYTES / 8);
    default: return (uintptr_t)&state_now[draw(WORDS)];
    }
}

static void put(uintptr_t at, uint64_t word)
{
    memcpy((void *)at, &word, sizeof word);
}

/* Two native frames with three functions. `is_whole`: the chain ends. */
static void make_state(bool is_whole)
{
    static const char type_name[] = "code";
    static uint64_t frame[3][16], code[64], name[16], lines[16], type[8];
    if (!is_whole)
        for (size_t i = 0; i < WORDS; i++)
            state_now[i] = any_word();
    type[3] = (uintptr_t)type_name;
    code[1] = (uintptr_t)type;
    code[14] = code[16] = (uintptr_t)name;
    code[17] = (uintptr_t)lines;
    name[2] = 4;
    name[3] = is_whole || draw(2) ? ~UINT64_C(0) : draw(1000);
    put((uintptr_t)&name[4], 0x64); /* compact, ASCII, one byte a letter */
    memcpy(&name[6], "fake", 4);
    lines[2] = 3;
    for (int i = 0; i < 3; i++) {
        frame[i][4] = (uintptr_t)code;
        frame[i][6] = i < 2 ? (uintptr_t)frame[i + 1] : 0;
        frame[i][7] = (uintptr_t)code + 184;
        ((uint8_t *)frame[i])[68] = i == 2;
        if (!is_whole && draw(3) == 0) frame[i][4 + draw(4)] = any_word();
    }
    cframe[1] = (uintptr_t)frame[0];
    cframe[2] = is_whole ? 0 : any_word() | 1;
    state_now[7] = is_whole || draw(2) ? (uintptr_t)cframe : any_word();
    if (!is_whole && draw(4) == 0) {
        lines[2] = any_word();
        name[2] = any_word();
        put((uintptr_t)&name[4], any_word());
    }
}

static void map_or_unmap(void)
{
    if (draw(2))
        munmap(comes_and_goes, PAGE_BYTES);
    else
        mmap(comes_and_goes, PAGE_BYTES, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

static int allocate(void)
{
    free(malloc(4711));
    return 1;
}

/* The interpreter's loop, whose frame has a cframe. `is_there`: the state says so. */
__attribute__((noinline)) int _PyEval_EvalFrameDefault(bool is_there)
{
    uint64_t own[8];
    memcpy(own, cframe, sizeof own);
    if (is_there) state_now[7] = (uintptr_t)own;
    const int count = allocate();
    return own[1] == cframe[1] ? count : 0;
}

static int try_garbage(int rounds)
{
    int count = 0;
    comes_and_goes =
        mmap(NULL, 2 * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 2 * rounds; i++) {
        has_lock = i < rounds / 8 || i == rounds || i > rounds + rounds / 2;
        if (i % 8 == 0) map_or_unmap();
        make_state(i == rounds);
        count += i >= rounds && i % 2 == 0 ? _PyEval_EvalFrameDefault(i == rounds) : allocate();
    }
    return count;
}

int main(int count, char **words)
{
    if (count < 3) return 2;
    seed = strtoull(words[2], NULL, 0) + 1;
    if (strcmp(words[1], "version") == 0) {
        Py_Version = seed - 1;
        printf("%d\n", allocate() + allocate());
    } else if (count == 4) {
        printf("%d\n", try_garbage(atoi(words[3])));
    }
    return 0;
}
