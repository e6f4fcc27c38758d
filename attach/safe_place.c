#include "attach/safe_place.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "attach/registers.h"
#include "attach/wait.h"

/* Functions of the C library that enter the allocator or the dynamic linker, or hold locks that
 * these need. */
static const char *const safe_place_entries[] = {"malloc",
                                                 "free",
                                                 "calloc",
                                                 "realloc",
                                                 "memalign",
                                                 "aligned_alloc",
                                                 "posix_memalign",
                                                 "valloc",
                                                 "pvalloc",
                                                 "cfree",
                                                 "__libc_malloc",
                                                 "__libc_free",
                                                 "__libc_calloc",
                                                 "__libc_realloc",
                                                 "__libc_memalign",
                                                 "__libc_valloc",
                                                 "__libc_pvalloc",
                                                 "__posix_memalign",
                                                 "malloc_trim",
                                                 "malloc_usable_size",
                                                 "mallopt",
                                                 "mallinfo",
                                                 "mallinfo2",
                                                 "malloc_info",
                                                 "malloc_stats",
                                                 "reallocarray",
                                                 "fork",
                                                 "_Fork",
                                                 "vfork",
                                                 "exit",
                                                 "quick_exit",
                                                 "abort",
                                                 "dlopen",
                                                 "dlmopen",
                                                 "dlclose",
                                                 "dlsym",
                                                 "dlvsym",
                                                 "dlerror",
                                                 "dladdr",
                                                 "dladdr1",
                                                 "dlinfo",
                                                 "dl_iterate_phdr",
                                                 "pthread_create",
                                                 "pthread_exit",
                                                 "pthread_atfork",
                                                 "__libc_freeres"};

/* Functions of the C library that only make a system call: where it has returned, they hold
 * nothing. */
static const char *const plain[SAFE_PLACE_PLAIN] = {"write",    "send", "sendto", "recv",
                                                    "recvfrom", "read", "syscall"};

/* More than the size of the kernel's code in a process (vDSO). */
enum { KERNEL_CODE_BYTES = 65536 };

static bool range_put(struct safe_places *places, uint64_t start, uint64_t end)
{
    if (places->ranges_count == places->ranges_room) {
        const size_t room = places->ranges_room * 2 + 64;
        struct safe_place_range *more = realloc(places->ranges, room * sizeof *more);
        if (more == NULL) return false;
        places->ranges = more;
        places->ranges_room = room;
    }
    places->ranges[places->ranges_count++] = (struct safe_place_range){start, end};
    return true;
}

static bool safe_place_module_put(struct safe_places *places, size_t module)
{
    const struct target *target = places->target;
    bool good = true;
    for (size_t i = 0; i < target->mappings_count; i++)
        if (target->mappings[i].module == module && target->mappings[i].is_executable)
            good = good && range_put(places, target->mappings[i].start, target->mappings[i].end);
    return good;
}

/* The extent of a function; empty if the module does not have it. */
static struct safe_place_range function_range(struct target *target, size_t module,
                                              const char *name)
{
    const uint64_t start = target_function(target, module, name);
    return (struct safe_place_range){start, start + target_function_bytes(target, module, start)};
}

/* Adds the recorder's library, without its own syscall(): where the program calls that to wait, it
 * is as safe as the C library's. */
static bool recorder_put(struct safe_places *places, struct target *target, size_t module)
{
    const struct safe_place_range call = function_range(target, module, "syscall");
    const size_t before = places->ranges_count;
    if (!safe_place_module_put(places, module)) return false;
    for (size_t i = before; i < places->ranges_count; i++) {
        struct safe_place_range *range = &places->ranges[i];
        if (call.start <= range->start || call.end >= range->end) continue;
        const uint64_t end = range->end;
        range->end = call.start;
        return range_put(places, call.end, end);
    }
    return true;
}

/* Adds the extents of these functions in one module. */
static bool functions_put(struct safe_places *places, struct target *target, size_t module)
{
    bool good = true;
    for (size_t i = 0; i < sizeof safe_place_entries / sizeof *safe_place_entries; i++) {
        const struct safe_place_range of = function_range(target, module, safe_place_entries[i]);
        if (of.end > of.start) good = good && range_put(places, of.start, of.end);
    }
    return good;
}

/* Includes the byte before it: frames are looked up by return address minus 1, as if a call
 * preceded this code. */
static bool restorer_set(struct safe_places *places, uint64_t start)
{
    places->restorer = start;
    return range_put(places, start - 1, start + sizeof registers_sigreturn);
}

/* Looks for it in the text of the C library. */
static bool restorer_put(struct safe_places *places)
{
    const struct target *target = places->target;
    const struct target_module *libc = &target->modules[places->libc];
    struct stat status;
    bool good = true;
    if (fstat(libc->file, &status) != 0) return true;
    const unsigned char *text =
        mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, libc->file, 0);
    if (text == MAP_FAILED) return true;
    for (size_t i = 0; i < target->mappings_count; i++) {
        const struct target_mapping *mapping = &target->mappings[i];
        const uint64_t bytes = mapping->end - mapping->start;
        if (mapping->module != places->libc || !mapping->is_executable ||
            mapping->offset + bytes > (uint64_t)status.st_size)
            continue;
        const unsigned char *at =
            memmem(text + mapping->offset, bytes, registers_sigreturn, sizeof registers_sigreturn);
        if (at != NULL)
            good = good &&
                   restorer_set(places, mapping->start + (uint64_t)(at - text) - mapping->offset);
    }
    munmap((void *)(uintptr_t)text, (size_t)status.st_size);
    return good;
}

/* Looks for it in the code that the kernel maps. */
static bool kernel_restorer_put(struct safe_places *places)
{
    static unsigned char code[KERNEL_CODE_BYTES];
    const struct target *target = places->target;
    const uint64_t start = target->kernel_code_start, bytes = target->kernel_code_end - start;
    const size_t got = target_read(target, start, code, bytes < sizeof code ? bytes : sizeof code);
    const unsigned char *at =
        got > 0 ? memmem(code, got, registers_sigreturn, sizeof registers_sigreturn) : NULL;
    return at == NULL || restorer_set(places, start + (uint64_t)(at - code));
}

static Dwfl *unwinder_open(pid_t process);

bool safe_places_find(struct safe_places *places, struct target *target)
{
    *places = (struct safe_places){.target = target,
                                   .libc = target_module_named(target, "libc.so.6"),
                                   .linker = target_module_named(target, ARCH_LINKER)};
    errno = 0;
    if (places->libc == TARGET_NONE || places->linker == TARGET_NONE) return false;
    bool good = safe_place_module_put(places, places->linker) &&
                functions_put(places, target, places->libc) && restorer_put(places) &&
                (places->restorer != 0 || kernel_restorer_put(places));
    for (size_t i = 0; good && i < target->modules_count; i++) {
        if (i == places->libc || i == places->linker || target_function(target, i, "malloc") == 0)
            continue;
        /* The first mapped file is the program. */
        if (i == 0) places->is_own_malloc = true;
        good = i == 0 ? functions_put(places, target, i)
               : i == target_module_named(target, TARGET_LIBRARY)
                   ? recorder_put(places, target, i)
                   : safe_place_module_put(places, i);
    }
    for (size_t i = 0; i < SAFE_PLACE_PLAIN; i++)
        places->plain[i] = function_range(target, places->libc, plain[i]);
    if (good) places->unwinder = unwinder_open(target->process);
    if (good) return true;
    safe_places_free(places);
    errno = ENOMEM;
    return false;
}

void safe_places_free(struct safe_places *places)
{
    if (places->unwinder != NULL) dwfl_end(places->unwinder);
    places->unwinder = NULL;
    free(places->ranges);
    places->ranges = NULL;
    places->ranges_count = places->ranges_room = 0;
}

static bool is_in(const struct safe_place_range *range, uint64_t address)
{
    return address >= range->start && address < range->end;
}

static bool is_inside(const struct safe_places *places, uint64_t address)
{
    for (size_t i = 0; i < places->ranges_count; i++)
        if (is_in(&places->ranges[i], address)) return true;
    return false;
}

static bool safe_place_is_plain(const struct safe_places *places, uint64_t address)
{
    bool is_plain = false;
    for (size_t i = 0; i < SAFE_PLACE_PLAIN; i++)
        is_plain = is_plain || is_in(&places->plain[i], address);
    return is_plain;
}

/* Whether the thread waits in a system call that neither an allocator nor the dynamic linker makes.
 * They do wait for locks by FUTEX_WAIT, in a function of their own or of the C library; the
 * library's syscall() does nothing for them that their frames would not show. */
static bool safe_place_is_waiting(const struct safe_places *places, long call, uint64_t code,
                                  const struct user_regs_struct *registers)
{
    uint64_t arguments[6];
    registers_arguments(registers, arguments);
    if (call == SYS_futex && (arguments[1] & FUTEX_CMD_MASK) == FUTEX_WAIT)
        return target_module_at(places->target, code) != places->libc ||
               is_in(&places->plain[SAFE_PLACE_SYSCALL], code);
    return wait_kind_of(places->target->process, call, arguments) != WAIT_FRAGILE;
}

/* ---- frames ---- */

enum frames { FRAMES_GOOD, FRAMES_INSIDE, FRAMES_UNKNOWN };

struct walk {
    const struct safe_places *places;
    bool is_inside;
};

static int frame_look(Dwfl_Frame *frame, void *of)
{
    struct walk *walk = of;
    Dwarf_Addr at;
    bool is_exact;
    if (!dwfl_frame_pc(frame, &at, &is_exact)) return DWARF_CB_ABORT;
    /* If a call is the last instruction of a function, its return address is in the next one. */
    walk->is_inside = is_inside(walk->places, is_exact ? at : at - 1);
    return walk->is_inside ? DWARF_CB_ABORT : DWARF_CB_OK;
}

static enum frames frames_walk(const struct safe_places *places, pid_t thread)
{
    struct walk walk = {.places = places};
    if (places->unwinder == NULL) return FRAMES_UNKNOWN;
    const int result = dwfl_getthread_frames(places->unwinder, thread, frame_look, &walk);
    return walk.is_inside ? FRAMES_INSIDE : result == 0 ? FRAMES_GOOD : FRAMES_UNKNOWN;
}

static int no_debug_information(Dwfl_Module *module, void **user, const char *name, Dwarf_Addr base,
                                const char *file, const char *link, GElf_Word check, char **found)
{
    (void)module, (void)user, (void)name, (void)base, (void)file, (void)link, (void)check;
    (void)found;
    return -1;
}

static Dwfl *unwinder_open(pid_t process)
{
    static const Dwfl_Callbacks callbacks = {.find_elf = dwfl_linux_proc_find_elf,
                                             .find_debuginfo = no_debug_information};
    Dwfl *unwinder = dwfl_begin(&callbacks);
    if (unwinder == NULL) return NULL;
    if (dwfl_linux_proc_report(unwinder, process) == 0 &&
        dwfl_report_end(unwinder, NULL, NULL) == 0 &&
        dwfl_linux_proc_attach(unwinder, process, true) == 0)
        return unwinder;
    dwfl_end(unwinder);
    return NULL;
}

/* Return addresses may be signed, in the bits above those of an address. */
static bool is_clear(const struct safe_places *places, uint64_t caller, const uint64_t *stack,
                     size_t words)
{
    const uint64_t bits = (UINT64_C(1) << ARCH_ADDRESS_BITS) - 1;
    bool is_clear = !is_inside(places, caller & bits);
    for (size_t i = 0; is_clear && i < words; i++)
        is_clear = !is_inside(places, stack[i] & bits);
    return is_clear;
}

bool safe_place_is(const struct safe_places *places, pid_t thread,
                   const struct user_regs_struct *registers, const uint64_t *stack, size_t words)
{
    const uint64_t code = registers_code(registers);
    const size_t module = target_module_at(places->target, code);
    const long call = registers_waits_in(thread, registers);
    if (is_inside(places, code)) return false;
    if (call >= 0 ? !safe_place_is_waiting(places, call, code, registers)
                  : module == TARGET_NONE ||
                        (module == places->libc && !safe_place_is_plain(places, code)) ||
                        (module == 0 && places->is_own_malloc))
        return false;
    const enum frames frames = frames_walk(places, thread);
    return frames == FRAMES_GOOD || (frames == FRAMES_UNKNOWN &&
                                     is_clear(places, registers_caller(registers), stack, words));
}
