#include "fake_os.h"

#include "common/atomic.h"
#include "tracing/core/capture.h"
#include "tracing/os/os.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#ifdef FAKE_THREADS
#include <linux/futex.h>
#include <pthread.h>
#include <sanitizer/tsan_interface.h>
#else
#include <ucontext.h>
#endif

enum {
    FILES_MAX = 64,
    DESCRIPTORS_MAX = 64,
    STACK_BYTES = 256 * 1024,
    PROCESS_ID = 4242,
    FIRST_THREAD_ID = 5000,
    COMMAND_ID = 4343
};

/* No code is the recorder's own (stack_table.h), so that stacks have more frames. */
const char no_code[1];

/* A run that goes on for longer than this hangs, even if its fibers are busy. */
#define TIME_MAX_NS UINT64_C(3600000000000)
#define CALL_NS     300
/* What the recorder says of memory. */
#define OWN_BYTES   (UINT64_C(3) << 20)
#define PEAK_BYTES  (UINT64_C(9) << 20)

/* How a fiber goes on. */
#ifdef FAKE_THREADS
struct turn {
    uint32_t is_its; /* a word to sleep on */
};
#else
struct turn {
    ucontext_t context;
    struct malloctape_lane *lane; /* a variable of the thread that plays all */
};
#endif

struct fiber {
    struct turn turn;
    bool is_writer, ended;
    void (*function)(void *);
    void *argument;
    bool waits;
    const uint32_t *word; /* whose waker ends it; NULL: only time does */
    uint64_t until_ns;    /* 0: no limit */
};

struct file {
    char path[128];
    int memory; /* descriptor of the real system; -1: removed */
    enum os_file_kind kind;
};

struct descriptor {
    bool open;
    struct file *file; /* NULL: a directory, a pipe, or nothing of interest */
    bool is_pipe;
    char directory[96];
    uint64_t position;
};

static struct {
    struct fake_plan plan;
    uint64_t random;
    uint64_t now_ns;
    uint64_t usage_ns;
    uint64_t all_calls;
    uint64_t switches;
    uint32_t calls[FAKE_CALLS];
    struct fiber fibers[FAKE_FIBERS_MAX];
    unsigned fibers_count;
    struct fiber *current;
    struct turn scheduler;
    enum fake_end end;
    bool exited;
    struct file files[FILES_MAX];
    unsigned files_count;
    struct descriptor descriptors[DESCRIPTORS_MAX];
    int reader; /* what it has got */
    uint64_t reader_bytes;
    uint32_t *writer_done;
    struct os_thread *writer_thread;
    char messages[4096];
    struct {
        const char *path; /* NULL: none */
        const char *text;
    } appears;
} fake;

const char *const fake_call_names[FAKE_CALLS] = {
#define FAKE_CALL_NAME(identifier, name) name,
    FAKE_CALL_LIST(FAKE_CALL_NAME)
#undef FAKE_CALL_NAME
};

void fake_exit(int status)
{
    for (;;)
        syscall(SYS_exit_group, status);
}

static void give_up(const char *what)
{
    fprintf(stderr, "fake_os: %s\n", what);
    fake_exit(99);
}

uint32_t fake_random(void)
{
    fake.random = fake.random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(fake.random >> 32);
}

/* --- turns --- */

#ifdef FAKE_THREADS

/* One runs at a time, but ThreadSanitizer does not see why: it knows no order of what two threads
 * do but that which the capture core makes, and the kernel. */

/* What stands here stands for all that a thread has done until it left its turn to others, and for
 * all that was done by the others until os_threads_barrier(). */
static char until_left[FAKE_FIBERS_MAX], until_barrier;

static void futex(uint32_t *word, int what, uint32_t value)
{
    syscall(SYS_futex, word, what, value, NULL, NULL, 0);
}

static void wait_for_turn(struct turn *own)
{
    while (!__atomic_exchange_n(&own->is_its, 0, __ATOMIC_ACQUIRE))
        futex(&own->is_its, FUTEX_WAIT_PRIVATE, 0);
}

static void switch_to(struct turn *own, struct turn *other)
{
    __atomic_store_n(&other->is_its, 1, __ATOMIC_RELEASE);
    futex(&other->is_its, FUTEX_WAKE_PRIVATE, 1);
    wait_for_turn(own);
}

static void leaves(const struct fiber *fiber)
{
    __tsan_release(&until_left[fiber - fake.fibers]);
}

static void goes_on(void)
{
    __tsan_acquire(&until_barrier);
}

static void fiber_main(void);

static void *thread_main(void *fiber)
{
    wait_for_turn(&((struct fiber *)fiber)->turn);
    fiber_main();
    return NULL;
}

static void turn_begin(struct fiber *fiber)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, thread_main, fiber) != 0) give_up("no thread");
}

static bool is_on_stack(const void *address)
{
    (void)address;
    return false;
}

bool os_threads_barrier(void)
{
    for (unsigned i = 0; i < fake.fibers_count; i++)
        __tsan_acquire(&until_left[i]);
    __tsan_release(&until_barrier);
    return true;
}

/* The kernel orders what a thread has done before whoever learns that it has ended. */
static void order_ended(const struct fiber *fiber)
{
    __tsan_acquire(&until_left[fiber - fake.fibers]);
}

/* The kernel stores to it when the thread has ended. */
static void order_word(uint32_t *word)
{
    __tsan_release(word);
}

#else

static struct malloctape_lane *lane_at_first;

static void switch_to(struct turn *own, struct turn *other)
{
    own->lane = malloctape_lane;
    malloctape_lane = other->lane ? other->lane : lane_at_first;
    swapcontext(&own->context, &other->context);
}

static void fiber_main(void);

static void turn_begin(struct fiber *fiber)
{
    void *stack =
        mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED) give_up("no stack");
    if (!lane_at_first) lane_at_first = malloctape_lane;
    getcontext(&fiber->turn.context);
    fiber->turn.context.uc_stack.ss_sp = stack;
    fiber->turn.context.uc_stack.ss_size = STACK_BYTES;
    makecontext(&fiber->turn.context, fiber_main, 0);
}

static bool is_on_stack(const void *address)
{
    for (unsigned i = 0; i < fake.fibers_count; i++) {
        const char *stack = fake.fibers[i].turn.context.uc_stack.ss_sp;
        if ((const char *)address >= stack && (const char *)address < stack + STACK_BYTES)
            return true;
    }
    return false;
}

bool os_threads_barrier(void)
{
    return true;
}

static void leaves(const struct fiber *fiber)
{
    (void)fiber;
}

static void goes_on(void) {}

static void order_ended(const struct fiber *fiber)
{
    (void)fiber;
}

static void order_word(uint32_t *word)
{
    (void)word;
}

#endif

/* --- fibers --- */

static void back_to_scheduler(void)
{
    struct fiber *fiber = fake.current;
    fake.switches++;
    leaves(fiber);
    switch_to(&fiber->turn, &fake.scheduler);
    goes_on();
}

void fake_yield(void)
{
    if (fake.current && fake_random() % 4 == 0) back_to_scheduler();
}

static void wait_for(const uint32_t *word, uint64_t timeout_ns)
{
    struct fiber *fiber = fake.current;
    fiber->waits = true;
    fiber->word = word;
    fiber->until_ns = timeout_ns ? fake.now_ns + timeout_ns : 0;
    back_to_scheduler();
}

void fake_sleep(uint64_t ns)
{
    wait_for(NULL, ns);
}

static void fiber_main(void)
{
    struct fiber *fiber = fake.current;
    fiber->function(fiber->argument);
    fiber->ended = true;
    if (fiber->is_writer) {
        order_word(&fake.writer_thread->alive);
        fake.writer_thread->alive = 0;
        order_word(fake.writer_done);
        *fake.writer_done = 1;
        os_wake_all(fake.writer_done);
    }
    for (;;)
        back_to_scheduler();
}

static struct fiber *start_fiber(void (*function)(void *), void *argument)
{
    if (fake.fibers_count == FAKE_FIBERS_MAX) give_up("too many fibers");
    struct fiber *fiber = &fake.fibers[fake.fibers_count++];
    fiber->function = function;
    fiber->argument = argument;
    turn_begin(fiber);
    return fiber;
}

void fake_fiber_start(void (*function)(void *), void *argument)
{
    start_fiber(function, argument);
}

static bool can_run(const struct fiber *fiber)
{
    if (fiber->ended) return false;
    return !fiber->waits || (fiber->until_ns && fake.now_ns >= fiber->until_ns);
}

static struct fiber *choose(void)
{
    struct fiber *able[FAKE_FIBERS_MAX];
    unsigned count = 0;
    for (unsigned i = 0; i < fake.fibers_count; i++)
        if (can_run(&fake.fibers[i])) able[count++] = &fake.fibers[i];
    return count ? able[fake_random() % count] : NULL;
}

/* Nobody can run: to the earliest time at which somebody can. */
static bool pass_time(void)
{
    uint64_t next = UINT64_MAX;
    for (unsigned i = 0; i < fake.fibers_count; i++)
        if (!fake.fibers[i].ended && fake.fibers[i].until_ns && fake.fibers[i].until_ns < next)
            next = fake.fibers[i].until_ns;
    if (next > TIME_MAX_NS) return false;
    fake.now_ns = next;
    return true;
}

enum fake_end fake_os_run(void)
{
    while (fake.end == FAKE_ENDED && !fake.exited) {
        struct fiber *fiber = choose();
        if (!fiber) {
            if (!pass_time()) return FAKE_HANGS;
            continue;
        }
        if (fake.now_ns > TIME_MAX_NS) return FAKE_HANGS;
        fiber->waits = false;
        fiber->word = NULL;
        fiber->until_ns = 0;
        fake.current = fiber;
        switch_to(&fake.scheduler, &fiber->turn);
        fake.current = NULL;
    }
    os_threads_barrier(); /* nobody goes on */
    return fake.end;
}

/* --- faults --- */

static const int errors_of[FAKE_CALLS][8] = {
    [FAKE_MEMORY] = {ENOMEM},
    [FAKE_DIRECTORY_OPEN] = {ENOENT, EACCES, EMFILE, ENOTDIR},
    [FAKE_LOOK] = {EACCES, ELOOP, EIO},
    [FAKE_LOOK_AT] = {EBADF, EIO},
    [FAKE_CREATE] = {ENOSPC, EDQUOT, EROFS, EMFILE, EEXIST},
    [FAKE_NAMELESS] = {EOPNOTSUPP, EISDIR, ENOSPC, EMFILE},
    [FAKE_NAME] = {EPERM, ENOSPC, EDQUOT, EROFS},
    [FAKE_OPEN_WRITE] = {EACCES, EMFILE, ENXIO},
    [FAKE_OPEN_READ] = {ENOENT, EMFILE},
    [FAKE_EMPTY] = {EIO, EPERM},
    [FAKE_RENAME] = {EPERM, EISDIR, ENOSPC, EDQUOT},
    [FAKE_REMOVE] = {EPERM, EROFS},
    [FAKE_WRITE] = {ENOSPC, EDQUOT, EFBIG, EIO, EPIPE, EAGAIN, FAKE_SHORT, FAKE_ZERO},
    [FAKE_WAIT_WRITABLE] = {ETIMEDOUT, EINTR},
    [FAKE_READ_START] = {EIO},
    [FAKE_ALLOCATE] = {ENOSPC, EDQUOT, EFBIG, EIO},
    [FAKE_MAP] = {ENOMEM},
    [FAKE_COMMAND_START] = {EMFILE, EAGAIN, ENOMEM},
    [FAKE_COMMAND_WAIT] = {ECHILD, ETIMEDOUT, -1},
    [FAKE_THREAD_START] = {EAGAIN, ENOMEM},
    [FAKE_RUN_APART] = {EAGAIN, ENOMEM},
    [FAKE_EXEC] = {ENOENT, ENOEXEC},
    [FAKE_READABLE] = {EFAULT},
};

int fake_error_of(enum fake_call call, unsigned index)
{
    return index < 8 ? errors_of[call][index] : 0;
}

static int error_by_chance(enum fake_call call)
{
    unsigned count = 0;
    while (fake_error_of(call, count))
        count++;
    return errors_of[call][fake_random() % count];
}

/* Counts the call, may let others go on, and says what is wrong with it; 0: nothing. */
static int call_begins(enum fake_call call)
{
    const struct fake_plan *plan = &fake.plan;
    fake.now_ns += CALL_NS;
    fake.calls[call]++;
    if (++fake.all_calls == plan->kill_at) {
        fake.end = FAKE_KILLED;
        if (fake.current) back_to_scheduler();
    }
    fake_yield();
    /* A call is not interrupted for ever. */
    bool lasting = plan->lasting && (plan->error != EINTR || fake.calls[call] < plan->number + 5);
    bool hit = fake.calls[call] == plan->number || (lasting && fake.calls[call] > plan->number);
    if (call == plan->call && hit) return plan->error;
    if (plan->chance && fake_random() % 65536 < plan->chance) return error_by_chance(call);
    return 0;
}

/* --- files --- */

static struct file *find_file(const char *path)
{
    for (unsigned i = 0; i < fake.files_count; i++)
        if (fake.files[i].memory >= 0 && strcmp(fake.files[i].path, path) == 0)
            return &fake.files[i];
    return NULL;
}

static struct file *add_file(const char *path, enum os_file_kind kind)
{
    if (fake.files_count == FILES_MAX) give_up("too many files");
    struct file *file = &fake.files[fake.files_count++];
    snprintf(file->path, sizeof file->path, "%s", path);
    file->kind = kind;
    file->memory = memfd_create("fake", MFD_CLOEXEC);
    if (file->memory < 0) give_up("no memory file");
    return file;
}

void fake_file_put(const char *path, const char *text)
{
    struct file *file = add_file(path, OS_FILE_PLAIN);
    if (write(file->memory, text, strlen(text)) < 0) give_up("cannot write");
}

void fake_file_appears(const char *path, const char *text)
{
    fake.appears.path = path;
    fake.appears.text = text;
}

void fake_fifo_put(const char *path)
{
    add_file(path, OS_FILE_PIPE);
}

int fake_file_get(const char *path)
{
    struct file *file = find_file(path);
    if (!file) return -1;
    lseek(file->memory, 0, SEEK_SET);
    return file->memory;
}

int fake_reader_get(void)
{
    lseek(fake.reader, 0, SEEK_SET);
    return fake.reader;
}

const char *fake_file_find(const char *prefix, const char *suffix)
{
    for (unsigned i = 0; i < fake.files_count; i++) {
        const char *path = fake.files[i].path;
        size_t length = strlen(path);
        if (fake.files[i].memory >= 0 && strncmp(path, prefix, strlen(prefix)) == 0 &&
            length >= strlen(suffix) && strcmp(path + length - strlen(suffix), suffix) == 0)
            return path;
    }
    return NULL;
}

static int open_descriptor(struct file *file)
{
    for (int i = 0; i < DESCRIPTORS_MAX; i++) {
        struct descriptor *descriptor = &fake.descriptors[i];
        if (descriptor->open) continue;
        *descriptor = (struct descriptor){.open = true, .file = file};
        return i;
    }
    give_up("descriptors are left open");
    return -1;
}

static struct descriptor *descriptor_of(int number)
{
    if (number < 0 || number >= DESCRIPTORS_MAX || !fake.descriptors[number].open)
        give_up("not a descriptor");
    return &fake.descriptors[number];
}

static void path_in(int directory, const char *name, char *path)
{
    if (directory == OS_NO_DIRECTORY) {
        snprintf(path, 128, "%s", name);
        return;
    }
    snprintf(path, 128, "%s%s", descriptor_of(directory)->directory, name);
}

int os_directory_open(const char *path)
{
    int error = call_begins(FAKE_DIRECTORY_OPEN);
    if (error) return -error;
    int number = open_descriptor(NULL);
    size_t length = strlen(path);
    if (length > 0 && path[length - 1] == '.') length--;
    bool slash = length > 0 && path[length - 1] != '/';
    snprintf(fake.descriptors[number].directory, 96, "%.*s%s", (int)length, path, slash ? "/" : "");
    return number;
}

static void tell_status(const struct file *file, struct os_file_status *status)
{
    status->kind = file->kind;
    status->is_own_name = true;
    status->device = 1;
    status->inode = (uint64_t)(file - fake.files);
    struct stat system;
    status->bytes = fstat(file->memory, &system) == 0 ? (uint64_t)system.st_size : 0;
}

int os_file_look(int directory, const char *name, struct os_file_status *status)
{
    char path[128];
    int error = call_begins(FAKE_LOOK);
    *status = (struct os_file_status){.kind = OS_FILE_MISSING};
    if (error) return -error;
    path_in(directory, name, path);
    struct file *file = find_file(path);
    if (file) tell_status(file, status);
    if (!file && fake.appears.path && strcmp(path, fake.appears.path) == 0) {
        fake.appears.path = NULL;
        fake_file_put(path, fake.appears.text);
    }
    return 0;
}

bool os_memory_pages(uintptr_t start, size_t pages, uint8_t *resident)
{
    (void)start, (void)pages, (void)resident;
    return false;
}

bool os_memory_may_be_swapped(void)
{
    return false;
}

bool os_memory_is_own(uintptr_t start, uintptr_t end)
{
    (void)start, (void)end;
    return false;
}

long os_file_read_at(int file, uint64_t offset, void *data, size_t bytes)
{
    (void)file, (void)offset, (void)data, (void)bytes;
    return -EACCES;
}

bool os_program_file(int file, uint64_t *device, uint64_t *inode, char *name, size_t bytes)
{
    (void)file, (void)device, (void)inode, (void)name, (void)bytes;
    return false;
}

int os_file_look_at(int number, struct os_file_status *status)
{
    int error = call_begins(FAKE_LOOK_AT);
    if (error) return -error;
    struct descriptor *descriptor = descriptor_of(number);
    if (descriptor->file) tell_status(descriptor->file, status);
    if (descriptor->is_pipe) status->kind = OS_FILE_PIPE;
    return 0;
}

int os_file_create(int directory, const char *name)
{
    char path[128];
    int error = call_begins(FAKE_CREATE);
    if (error) return -error;
    path_in(directory, name, path);
    if (find_file(path)) return -EEXIST;
    return open_descriptor(add_file(path, OS_FILE_PLAIN));
}

int os_file_create_nameless(int directory)
{
    (void)directory;
    int error = call_begins(FAKE_NAMELESS);
    return error ? -error : open_descriptor(add_file("", OS_FILE_PLAIN));
}

int os_file_name(int number, int directory, const char *name)
{
    char path[128];
    int error = call_begins(FAKE_NAME);
    if (error) return -error;
    path_in(directory, name, path);
    if (find_file(path)) return -EEXIST;
    memcpy(descriptor_of(number)->file->path, path, sizeof path);
    return 0;
}

int os_file_open_write(int directory, const char *name)
{
    char path[128];
    int error = call_begins(FAKE_OPEN_WRITE);
    if (error) return -error;
    path_in(directory, name, path);
    struct file *file = find_file(path);
    if (!file) return -ENOENT;
    if (file->kind == OS_FILE_PIPE && fake.now_ns < fake.plan.reader_comes_ns) return -ENXIO;
    int number = open_descriptor(file);
    fake.descriptors[number].is_pipe = file->kind == OS_FILE_PIPE;
    return number;
}

int os_file_open_again(int directory, const char *name, const struct os_file_status *was)
{
    char path[128];
    int error = call_begins(FAKE_OPEN_WRITE);
    if (error) return -error;
    path_in(directory, name, path);
    struct file *file = find_file(path);
    if (!file) return -ENOENT;
    if ((uint64_t)(file - fake.files) != was->inode || !was->device) return -ESTALE;
    int number = open_descriptor(file);
    fake.descriptors[number].position = (uint64_t)lseek(file->memory, 0, SEEK_END);
    return number;
}

int os_file_open_read(const char *path)
{
    (void)path;
    int error = call_begins(FAKE_OPEN_READ);
    return error ? -error : open_descriptor(NULL);
}

/* Nobody has started the program. */
int os_file_open_append(const char *path)
{
    (void)path;
    return -ENOENT;
}

int os_file_empty(int number)
{
    int error = call_begins(FAKE_EMPTY);
    if (error) return -error;
    return ftruncate(descriptor_of(number)->file->memory, 0) == 0 ? 0 : -errno;
}

static void remove_file(struct file *file)
{
    /* Its descriptors and mappings go on, so the memory file is kept, without a name. */
    file->path[0] = 0;
}

/* There is no other process. */
void os_file_lock(int number)
{
    (void)number;
}

bool os_file_is_locked(int directory, const char *name)
{
    (void)directory, (void)name;
    return false;
}

static int rename_file(int directory, const char *from, const char *to, bool replaces)
{
    char from_path[128], to_path[128];
    int error = call_begins(FAKE_RENAME);
    if (error) return -error;
    path_in(directory, from, from_path);
    path_in(directory, to, to_path);
    struct file *file = find_file(from_path);
    struct file *there = find_file(to_path);
    if (!file) return -ENOENT;
    if (there && !replaces) return -EEXIST;
    if (there) remove_file(there);
    memcpy(file->path, to_path, sizeof file->path);
    return 0;
}

int os_file_rename(int directory, const char *from, const char *to)
{
    return rename_file(directory, from, to, true);
}

int os_file_rename_new(int directory, const char *from, const char *to)
{
    return rename_file(directory, from, to, false);
}

int os_file_remove(int directory, const char *name)
{
    char path[128];
    int error = call_begins(FAKE_REMOVE);
    if (error) return -error;
    path_in(directory, name, path);
    struct file *file = find_file(path);
    if (!file) return -ENOENT;
    remove_file(file);
    return 0;
}

void os_file_close(int number)
{
    if (number >= 0) descriptor_of(number)->open = false;
}

static bool reader_has_stopped(void)
{
    const struct fake_plan *plan = &fake.plan;
    bool resumed = plan->reader_resumes_ns && fake.now_ns >= plan->reader_resumes_ns;
    return plan->reader_stops_at && fake.reader_bytes >= plan->reader_stops_at && !resumed;
}

static long write_to_reader(const void *data, size_t bytes)
{
    const struct fake_plan *plan = &fake.plan;
    if (reader_has_stopped()) return plan->reader_goes ? -EPIPE : -EAGAIN;
    if (bytes > OS_PIPE_BYTES) give_up("a write for which a pipe may have no room");
    fake.reader_bytes += bytes;
    return write(fake.reader, data, bytes);
}

long os_file_write(int number, const void *data, size_t bytes)
{
    int error = call_begins(FAKE_WRITE);
    if (error == FAKE_ZERO) return 0;
    if (error == FAKE_SHORT && bytes > 0) bytes = 1;
    if (error && error != FAKE_SHORT) return -error;
    struct descriptor *descriptor = descriptor_of(number);
    if (descriptor->is_pipe) return write_to_reader(data, bytes);
    if (!descriptor->file) give_up("a write to what is no file");
    long written = pwrite(descriptor->file->memory, data, bytes, (off_t)descriptor->position);
    if (written > 0) descriptor->position += (uint64_t)written;
    return written;
}

int os_file_wait_writable(int number, uint64_t timeout_ns)
{
    const struct fake_plan *plan = &fake.plan;
    int error = call_begins(FAKE_WAIT_WRITABLE);
    descriptor_of(number);
    if (error == ETIMEDOUT) fake_sleep(timeout_ns);
    if (error) return -error;
    if (!reader_has_stopped() || plan->reader_goes) return 0;
    fake_sleep(timeout_ns ? timeout_ns : TIME_MAX_NS + 1);
    return reader_has_stopped() ? -ETIMEDOUT : 0;
}

long os_file_read_start(int number, void *data, size_t bytes)
{
    static const char text[] = "1000 200 30 4 0 5 0\n";
    int error = call_begins(FAKE_READ_START);
    if (error) return -error;
    if (number < 0) return -EBADF;
    const struct file *file = descriptor_of(number)->file;
    if (file) return pread(file->memory, data, bytes, 0);
    size_t length = bytes < sizeof text - 1 ? bytes : sizeof text - 1;
    memcpy(data, text, length);
    return (long)length;
}

int os_file_allocate(int number, uint64_t from, size_t bytes)
{
    int error = call_begins(FAKE_ALLOCATE), memory = descriptor_of(number)->file->memory;
    if (error == FAKE_CUT) error = ftruncate(memory, 0) == 0 ? 0 : errno;
    if (error) return -error;
    return ftruncate(memory, (off_t)(from + bytes)) == 0 ? 0 : -errno;
}

void *os_file_map(int number, uint64_t offset, size_t bytes, void *at, bool touched)
{
    (void)touched;
    if (call_begins(FAKE_MAP)) return NULL;
    void *memory = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (at ? MAP_FIXED : 0),
                        descriptor_of(number)->file->memory, (off_t)offset);
    return memory == MAP_FAILED ? NULL : memory;
}

bool os_file_unmap(void *memory, size_t bytes)
{
    return mmap(memory, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                0) != MAP_FAILED;
}

/* --- a command --- */

int os_command_start(const char *command, int *process)
{
    (void)command;
    int error = call_begins(FAKE_COMMAND_START);
    if (error) return -error;
    *process = COMMAND_ID;
    int number = open_descriptor(NULL);
    fake.descriptors[number].is_pipe = true;
    return number;
}

int os_command_wait(int process, uint64_t timeout_ns)
{
    int error = call_begins(FAKE_COMMAND_WAIT);
    if (process != COMMAND_ID) give_up("not a command");
    if (error == ETIMEDOUT) fake_sleep(timeout_ns);
    return -error;
}

uint64_t os_memory_resident_bytes(uint64_t *of_files)
{
    *of_files = OWN_BYTES / 2;
    return OWN_BYTES;
}

void os_memory_forked(void) {}

struct os_usage os_process_usage(bool without_caller)
{
    if (!without_caller) return (struct os_usage){0, 0};
    fake.now_ns += fake.plan.usage_ns;
    fake.usage_ns += fake.plan.usage_ns;
    return (struct os_usage){fake.now_ns, fake.now_ns / 2};
}

uint64_t fake_usage_ns(void)
{
    return fake.usage_ns;
}

uint64_t os_thread_run_ns(void)
{
    return fake.usage_ns;
}

uint64_t os_process_peak_bytes(void)
{
    return PEAK_BYTES;
}

/* --- memory, time, threads --- */

/* ThreadSanitizer ends the process for an address that it has not left to it: the kernel is asked. */
static bool is_free(void *address, size_t bytes)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
    if (syscall(SYS_mmap, address, bytes, PROT_NONE, flags, -1, 0) != (long)address) return false;
    syscall(SYS_munmap, address, bytes);
    return true;
}

static void *take_memory(void *address, size_t bytes, int flags)
{
    if (call_begins(FAKE_MEMORY) || (address && !is_free(address, bytes))) return NULL;
    void *memory = mmap(address, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

void *os_memory_reserve(size_t bytes)
{
    return take_memory(NULL, bytes, 0);
}

void *os_memory_reserve_per_process(size_t bytes)
{
    return take_memory(NULL, bytes, 0);
}

void *os_memory_reserve_per_process_at(uintptr_t address, size_t bytes)
{
    return take_memory((void *)address, bytes, MAP_FIXED_NOREPLACE);
}

void os_memory_clear(void *memory, size_t bytes)
{
    madvise(memory, bytes, MADV_DONTNEED);
}

void os_memory_is_dense(void *memory, size_t bytes)
{
    (void)memory, (void)bytes;
}

size_t os_page_bytes(void)
{
    return 4096;
}

bool os_memory_is_readable(const void *address)
{
    return !call_begins(FAKE_READABLE) && is_on_stack(address);
}

/* What the dynamic linker has can be read always; else it would not know of any code. */
size_t os_memory_copy(int thread_id, void *to, const void *from, size_t bytes)
{
    struct iovec local = {to, bytes}, remote = {(void *)(uintptr_t)from, bytes};
    (void)thread_id; /* is made up */
    if (is_on_stack(from) && call_begins(FAKE_READABLE)) return 0;
    const ssize_t result = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
    return result > 0 ? (size_t)result : 0;
}

bool os_memory_copy_words(int thread_id, uint64_t *to, const uintptr_t *from, uint32_t count)
{
    bool good = true;
    for (uint32_t i = 0; i < count && good; i++)
        good = os_memory_copy(thread_id, &to[i], (const void *)from[i], sizeof *to) == sizeof *to;
    return good;
}

bool os_memory_can_be_copied(void)
{
    return true;
}

void os_memory_release(void *memory, size_t bytes)
{
    munmap(memory, bytes);
}

void os_message_begin(void) {}

void os_message_write(const char *text, size_t bytes)
{
    size_t used = strlen(fake.messages);
    if (used + bytes >= sizeof fake.messages) give_up("too many messages");
    memcpy(fake.messages + used, text, bytes);
}

uint64_t os_clock_ns(void)
{
    fake.now_ns += CALL_NS;
    return fake.now_ns;
}

uint64_t os_wall_clock_ns(void)
{
    return UINT64_C(1700000000000000000) + os_clock_ns();
}

void os_current_directory(char *path, size_t bytes)
{
    snprintf(path, bytes, "/d/");
}

void os_program_path(char *path, size_t bytes)
{
    snprintf(path, bytes, "/d/program");
}

void os_host_name(char *name, size_t bytes)
{
    snprintf(name, bytes, "host");
}

int os_process_id(void)
{
    return PROCESS_ID;
}

size_t os_stack_left(const void *address)
{
    (void)address;
    return SIZE_MAX;
}

int os_thread_id(void)
{
    return FIRST_THREAD_ID + (int)(fake.current - fake.fibers);
}

bool os_thread_is_gone(int thread_id)
{
    const struct fiber *fiber = &fake.fibers[thread_id - FIRST_THREAD_ID];
    if (fiber->ended) order_ended(fiber);
    return fiber->ended;
}

void os_thread_look(int thread_id, struct os_thread_look *look)
{
    *look = (struct os_thread_look){.is_gone = os_thread_is_gone(thread_id), .sleeps = true};
}

unsigned os_process_threads(void)
{
    return 0;
}

bool os_process_is_abandoned(unsigned own)
{
    (void)own;
    return false;
}

bool os_process_is_emulated(void)
{
    return false;
}

bool os_process_is_sanitized(void)
{
    return false;
}

int os_wait(const uint32_t *word, uint32_t expected, uint64_t timeout_ns)
{
    fake.now_ns += CALL_NS;
    if (atomic_load_relaxed(word) == expected) wait_for(word, timeout_ns);
    return 0;
}

int os_sleep(uint64_t ns)
{
    static const uint32_t never_changes;
    return os_wait(&never_changes, 0, ns);
}

bool os_is_confined(void)
{
    return false;
}

uint64_t os_signals_block(void)
{
    return 0;
}

void os_signals_restore(uint64_t before)
{
    (void)before;
}

uint64_t os_signals_unblock(uint64_t signals)
{
    (void)signals;
    return 0;
}

/* There are no signals but those of faults. */
void os_signal_send_again(siginfo_t *info, bool to_thread)
{
    (void)info, (void)to_thread;
    give_up("a signal");
}

bool os_is_of_program(void)
{
    return !fake.current || !fake.current->is_writer;
}

bool os_file_is_executable(const char *path)
{
    return find_file(path);
}

int os_exec_try(int directory, const char *path, char *const words[], char *const environment[],
                int flags)
{
    (void)directory, (void)path, (void)words, (void)environment, (void)flags;
    return -call_begins(FAKE_EXEC);
}

size_t os_exec_linker(int directory, const char *path, int flags, char *linker, size_t bytes)
{
    (void)directory, (void)path, (void)flags, (void)linker, (void)bytes;
    return 0;
}

/* What it leaves open is closed. */
int os_call_apart(void (*function)(void *), void *argument, bool survives)
{
    (void)survives;
    bool was_open[DESCRIPTORS_MAX];
    int error = call_begins(FAKE_RUN_APART);
    if (error) return -error;
    for (int i = 0; i < DESCRIPTORS_MAX; i++)
        was_open[i] = fake.descriptors[i].open;
    function(argument);
    for (int i = 0; i < DESCRIPTORS_MAX; i++)
        fake.descriptors[i].open = was_open[i];
    return 0;
}

void os_wake(const uint32_t *word, uint32_t count)
{
    for (unsigned i = 0; i < fake.fibers_count && count > 0; i++) {
        if (!fake.fibers[i].waits || fake.fibers[i].word != word) continue;
        fake.fibers[i].waits = false;
        count--;
    }
    fake_yield();
}

void os_random(void *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        ((uint8_t *)bytes)[i] = (uint8_t)fake_random();
}

int os_thread_start(struct os_thread *thread, void (*function)(void *), void *argument,
                    uint32_t *done, struct os_files kept)
{
    (void)kept;
    int error = call_begins(FAKE_THREAD_START);
    if (error) return -error;
    *thread = (struct os_thread){.memory = fake.fibers, .alive = 1};
    fake.writer_done = done;
    fake.writer_thread = thread;
    start_fiber(function, argument)->is_writer = true;
    return 0;
}

void os_thread_release(struct os_thread *thread)
{
    if (thread->memory && thread->alive) give_up("a thread is released that lives");
    thread->memory = NULL;
}

/* Nobody asks for a control thread. */

int os_control_listen(void)
{
    return -ENOSYS;
}

int os_control_next(int listening, char *request, size_t bytes, uint64_t timeout_ns,
                    enum os_asker *asker, struct os_files *given)
{
    (void)listening, (void)request, (void)bytes, (void)timeout_ns, (void)asker, (void)given;
    return -ENOSYS;
}

void os_control_answer(int file, const char *text, size_t bytes)
{
    (void)file, (void)text, (void)bytes;
}

void os_process_exit(int status)
{
    (void)status;
    fake.exited = true;
    for (;;)
        back_to_scheduler();
}

void fake_os_begin(const struct fake_plan *plan)
{
    fake.plan = *plan;
    fake.random = plan->seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    fake.now_ns = 1000000;
    fake.reader = memfd_create("reader", MFD_CLOEXEC);
    if (fake.reader < 0) give_up("no memory file");
}

uint32_t fake_calls(enum fake_call call)
{
    return call == FAKE_ANY ? (uint32_t)fake.all_calls : fake.calls[call];
}

uint64_t fake_switches(void)
{
    return fake.switches;
}

unsigned fake_open_descriptors(void)
{
    unsigned count = 0;
    for (int i = 0; i < DESCRIPTORS_MAX; i++)
        count += fake.descriptors[i].open;
    return count;
}

const char *fake_messages(void)
{
    return fake.messages;
}
