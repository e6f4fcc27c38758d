/* fake_ruby - looks like the library of Ruby, of the version FAKE_RUBY (3.1.2: else a line says that it is not
 * known).
 *
 * As it is loaded, its loop allocates objects of 4 711 bytes, while what the thread's context leads to is
 * anything: numbers, texts, other structures, pages that cannot be read. It never has the lock where that
 * looks like a function, as nobody else's structures would be read as they are. Then it prints how many. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ROUNDS = 300, WORDS = 4096, PAGE = 4096 };

char ruby_version[8] = "3.1.2";
void *ruby_current_vm_ptr = &ruby_version;
__thread uintptr_t *ruby_current_ec;

int rb_during_gc(void);
void rb_vm_exec(uintptr_t previous);

static uintptr_t words[WORDS], unreadable;
static uint64_t seed = 1;

static uint64_t next(uint64_t below)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (seed >> 33) % below;
}

static uintptr_t somewhere(void)
{
    return (uintptr_t)&words[next(WORDS)];
}

static uintptr_t anything(int is_function)
{
    switch (next(is_function ? 9 : 8)) {
    case 0: return next(64);
    case 1: return unreadable + next(PAGE);
    case 2: return 0x2005; /* a text that is elsewhere */
    case 3: return 0x11110021;
    case 4: return UINTPTR_MAX - next(64);
    case 8: return 0x701a;
    default: return somewhere();
    }
}

int rb_during_gc(void)
{
    return 0;
}

__attribute__((noinline)) void rb_vm_exec(uintptr_t previous)
{
    volatile uintptr_t tag[9] = {0};
    tag[3] = (uintptr_t)&rb_vm_exec + 1;
    tag[7] = previous;
    ruby_current_ec[3] = (uintptr_t)tag;
    free(malloc(4711));
}

static void round_of(uintptr_t *ec, uintptr_t *thread)
{
    const int has_lock = next(2) == 0;
    for (int i = 0; i < WORDS; i++)
        words[i] = anything(!has_lock);
    ec[0] = (uintptr_t)words;
    ec[1] = next(4) ? WORDS : next(UINT32_MAX);
    ec[2] = next(16) ? (uintptr_t)words + 64 * next(WORDS / 8) : anything(0);
    ec[6] = next(16) ? (uintptr_t)thread : anything(0);
    thread[5] = (uintptr_t)ec;
    thread[10] = (uintptr_t)pthread_self();
    thread[21] = has_lock ? 0 : 1;
    rb_vm_exec(anything(0));
}

__attribute__((constructor)) static void load(void)
{
    static uintptr_t ec[16], thread[32];
    const char *version = getenv("FAKE_RUBY");
    if (version != NULL) strncpy(ruby_version, version, sizeof ruby_version - 1);
    unreadable = (uintptr_t)mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ruby_current_ec = ec;
    for (int i = 0; i < ROUNDS; i++)
        round_of(ec, thread);
    printf("%d\n", ROUNDS);
}
