/* capture_faults_test - the capture core over a system in which every call fails, in every way it can.
 *
 *   capture_faults_test              each call failing, one by one, then RUNS (MALLOCTAPE_RUNS) runs by chance; TAP
 *   capture_faults_test one PLAN     one run, as a failure prints it
 *
 * A run is a program of a few threads that allocate, in a process of its own. Whatever fails: it does not crash, nobody waits
 * for ever, at most one line is said. What is recorded is compared with what was done, call by call: a stream that claims to be complete
 * has every call; otherwise stream and spool together have every call that had returned, unless recording never began.
 * Where it never began, what was there before is there still. */
#include "fake_os.h"

#include "common/call_kind.h"
#include "tracing/capture.h"
#include "tracing/os.h"
#include "tracing/raw_decoder.h"
#include "tracing/spool_reader.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* Before the run begins there is no environment, so that no recording starts with this program. */
extern char **capture_environ;
char **capture_environ;

enum scenario { OVER_NOTHING, OVER_OLDER, FIFO, COMMAND, SCENARIOS };

static const char *const scenario_names[SCENARIOS] = {"file", "older", "fifo", "command"};
static const char *const outputs[SCENARIOS] = {"/d/raw", "/d/raw", "/d/fifo", "|command"};

static const char older_stream[] = "an older recording";
static const char older_spool[] = "and its spool";

struct run {
    enum scenario scenario;
    struct fake_plan plan;
    bool loses;       /* rather than wait for the writer */
    bool count_calls; /* print how often each was made */
    bool tell;        /* print what was said */
};

static void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

static void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("# ", stdout);
    vprintf(format, arguments);
    printf("\n# said: %s", *fake_messages() ? fake_messages() : "nothing\n");
    fflush(stdout);
    fake_exit(1);
}

/* --- the heap of the program: pages of objects of one size --- */

#define HEAP_BYTES  (UINT64_C(8) << 20)
#define OBJECTS_MAX 4096
#define THREADS_MAX 4
#define STRUCTURES  5 /* the first ones, and the page heap */

static const uint32_t sizes[] = {16, 64, 512, 0}; /* 0: one object in a page */

struct object {
    void *address; /* NULL: none */
    uint32_t size;
};

static uint8_t *heap;
static uint8_t *used; /* for each 16 bytes of the heap: whether an object starts there */

static void heap_begin(void)
{
    heap =
        mmap(NULL, HEAP_BYTES + SHADOW_PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    used = calloc(HEAP_BYTES / 16, 1);
    if (heap == MAP_FAILED || !used) fail("no heap");
    heap += -(uintptr_t)heap % SHADOW_PAGE_BYTES;
}

static struct object object_take(void)
{
    for (;;) {
        uint64_t page = fake_random() % (HEAP_BYTES / SHADOW_PAGE_BYTES);
        uint32_t size = sizes[page % 4];
        uint64_t offset = page * SHADOW_PAGE_BYTES +
                          (size ? fake_random() % (SHADOW_PAGE_BYTES / size) * size : 0);
        if (used[offset / 16]) continue;
        used[offset / 16] = 1;
        return (struct object){heap + offset, size};
    }
}

static void object_give(struct object *object)
{
    used[((uint8_t *)object->address - heap) / 16] = 0;
    object->address = NULL;
}

static uint64_t heap_bytes(void)
{
    return HEAP_BYTES;
}

static bool cover_heap(void)
{
    return shadow_cover((uintptr_t)heap, HEAP_BYTES);
}

static void divert(void) {}

static const char *const no_settings[] = {NULL};
const struct malloctape_front_end malloctape_front_end = {
    .allocator = "none",
    .settings = no_settings,
    .heap_bytes = heap_bytes,
    .cover_heap = cover_heap,
    .divert = divert,
};

/* --- what was done, by lane --- */

#define LANES_MAX  16
#define EVENTS_MAX 1000000
#define STAMPS_MAX 300000

struct event {
    uint8_t number; /* FORMAT.md 3 */
    bool must;      /* it had returned, and recording went on when it began */
    uint32_t structure;
    uint64_t size;
    uint64_t token; /* of the object that ends, or begins */
};

struct events {
    struct event *list;
    size_t count;
};

static struct events done[LANES_MAX];
static bool run_loses;

/* Adds to a lane; the event is not one that must be there until it has returned. */
static struct event *event_begins(unsigned lane, struct event event)
{
    struct events *events = &done[lane];
    if (lane >= LANES_MAX || events->count == EVENTS_MAX) fail("too much is done");
    if (!events->list) events->list = malloc(EVENTS_MAX * sizeof *events->list);
    if (!events->list) fail("no memory");
    events->list[events->count] = event;
    return &events->list[events->count++];
}

/* --- the program --- */

struct thread {
    unsigned steps;
    struct object objects[64];
};

static struct thread threads[THREADS_MAX];
static unsigned threads_count, threads_ended;

/* A call that is not recorded although recording goes on; a thread without a lane is counted elsewhere. */
static void event_refused(void)
{
    if (run_loses && malloctape_state == MALLOCTAPE_RECORDING && malloctape_lane->recording)
        event_begins(malloctape_lane->number, (struct event){.number = RAW_LOST});
}

static unsigned a_structure(void)
{
    unsigned index = fake_random() % STRUCTURES;
    return index == STRUCTURES - 1 ? RAW_STRUCTURE_PAGE_HEAP : index;
}

/* Returns whether any: a stamp may have to wait for a slot, and meanwhile recording may end. */
static bool stamp_some(uint32_t allocating)
{
    unsigned count = fake_random() % 8 ? 0 : fake_random() % 4;
    malloctape_lane->allocating = allocating;
    for (unsigned i = 0; i < count; i++) {
        unsigned structure = a_structure();
        event_begins(malloctape_lane->number,
                     (struct event){.number = allocating ? RAW_STAMP_BEFORE : RAW_STAMP_AFTER,
                                    .structure = structure});
        malloctape_stamp(structure);
    }
    malloctape_lane->allocating = 0;
    return count > 0;
}

/* Returns whether others may have gone on meanwhile. */
static bool open_page(const struct object *object)
{
    if (shadow_is_open(shadow_page_of(object->address))) return false;
    shadow_open(object->address, object->size, (uint8_t)(object->size / 16));
    return true;
}

/* The capture core counts lanes from 1. */
static uint64_t token_in_stream(uint64_t token)
{
    return token ? raw_token(raw_token_lane(token) - 1, raw_token_serial(token)) : token;
}

static void birth(struct object *object)
{
    *object = object_take();
    if (!malloctape_ready()) {
        event_refused();
        malloctape_born_unrecorded(object->address);
        return;
    }
    unsigned lane = malloctape_lane->number;
    bool waited = stamp_some(1);
    uint64_t size = fake_random() % 16 ? fake_random() % 600 : fake_random();
    bool failed = fake_random() % 64 == 0;
    if (!failed && open_page(object)) waited = true;
    struct event *event = event_begins(
        lane, (struct event){.number = failed ? RAW_FAILED : CALL_MALLOC, .size = size});
    malloctape_born(CALL_MALLOC, size, 0, failed ? NULL : object->address);
    event->must = !waited;
    if (failed)
        object_give(object);
    else
        event->token = token_in_stream(malloctape_token_of(object->address));
    if (fake_random() % 64)
        malloctape_thread_cache_is(heap);
    else
        malloctape_thread_cache_changed();
}

/* A thread leaves its processor in the middle of an event of two units: the second is counted already. Returns whether
 * it did. */
static bool dawdle(void)
{
    struct malloctape_lane *lane = malloctape_lane;
    if (fake_random() % 512) return false;
    lane->extra_units++;
    fake_sleep(fake_random() % 30000000);
    lane->extra_units--;
    return true;
}

static void death(struct object *object)
{
    if (malloctape_ready()) {
        bool waited = dawdle();
        uint64_t token = malloctape_token_of(object->address);
        struct event *event =
            event_begins(malloctape_lane->number,
                         (struct event){.number = CALL_FREE, .token = token_in_stream(token)});
        malloctape_dies(CALL_FREE, token, 0, 0);
        event->must = !waited;
        stamp_some(0);
    } else {
        event_refused();
    }
    object_give(object);
}

static void move(struct object *object)
{
    struct object old = *object;
    *object = object_take();
    if (malloctape_ready()) {
        uint64_t token = malloctape_token_of(old.address);
        bool waited = open_page(object);
        struct event event = {
            .number = CALL_REALLOC_MOVED, .size = 77, .token = token_in_stream(token)};
        struct event *begun = event_begins(malloctape_lane->number, event);
        malloctape_reallocated(CALL_REALLOC_MOVED, token, 77, object->address);
        begun->must = !waited;
    } else {
        event_refused();
        malloctape_born_unrecorded(object->address);
    }
    object_give(&old);
}

/* Far away, where the shadow table has no region yet. */
static void heap_grows(void)
{
    uintptr_t address =
        (uintptr_t)heap - ((uintptr_t)(1 + fake_random() % 64) << SHADOW_REGION_BITS);
    if (malloctape_state == MALLOCTAPE_RECORDING && !shadow_cover(address, SHADOW_PAGE_BYTES))
        malloctape_out_of_memory();
}

static void thread_main(void *argument)
{
    struct thread *thread = argument;
    for (unsigned i = 0; i < thread->steps; i++) {
        /* Objects of others too: not only the own lane's end here. */
        struct thread *owner = fake_random() % 8 ? thread : &threads[fake_random() % threads_count];
        struct object *place = &owner->objects[fake_random() % 64];
        struct object object = *place;
        place->address = NULL; /* nobody else may take it meanwhile */
        if (!object.address)
            birth(&object);
        else if (fake_random() % 16 == 0)
            move(&object);
        else
            death(&object);
        if (object.address && !place->address) *place = object;
        if (fake_random() % 64 == 0) fake_yield();
        if (fake_random() % 2048 == 0) heap_grows();
        if (fake_random() % 4096 == 0) fake_sleep(fake_random() % 30000000);
    }
    threads_ended++;
}

static void main_thread(void *argument)
{
    thread_main(argument);
    /* For the others, or at least until one of them has begun the recording. */
    bool waits = fake_random() % 4;
    while (waits ? threads_ended < threads_count
                 : malloctape_state == MALLOCTAPE_UNDECIDED ||
                       malloctape_state == MALLOCTAPE_STARTING)
        fake_sleep(1000000);
    _exit(0);
}

static void program_begin(const struct run *run)
{
    heap_begin();
    threads_count = 1 + fake_random() % THREADS_MAX;
    /* Long enough to fill all slots that there are at first, if the writer is held up. */
    bool long_life = fake_random() % 16 == 0;
    unsigned longer = run->plan.reader_resumes_ns ? 400000 : 0;
    for (unsigned i = 0; i < threads_count; i++) {
        threads[i].steps = 1 + fake_random() % (fake_random() % 4 ? 3000 : 40000);
        threads[i].steps += longer + (long_life ? 150000 : 0);
        fake_fiber_start(i ? thread_main : main_thread, &threads[i]);
    }
}

/* --- what is recorded, by lane --- */

struct recorded {
    bool has_stream, has_spool;
    enum raw_stream_state state;
    uint32_t status; /* of the end */
    struct raw_decoder decoders[LANES_MAX];
    bool begun[LANES_MAX];
    struct events lanes[LANES_MAX];
    uint64_t events; /* calls */
};

static struct recorded recorded;

static const char *text_of(const struct error *error)
{
    static char text[512];
    return error_text(error, text, sizeof text);
}

/* Each number of a structure is given once; in a complete recording none is missing. */
static struct {
    uint8_t seen[STAMPS_MAX];
    uint32_t highest, count;
} stamps[RAW_STRUCTURES];

static void add_stamp(const struct record *record)
{
    if (record->number != RAW_STAMP_BEFORE && record->number != RAW_STAMP_AFTER) return;
    uint32_t number = (uint32_t)record->size;
    if (number >= STAMPS_MAX || stamps[record->structure].seen[number]++)
        fail("structure %u: number %u again", record->structure, number);
    stamps[record->structure].count++;
    if (number > stamps[record->structure].highest) stamps[record->structure].highest = number;
}

static void check_stamps(void)
{
    for (unsigned structure = 0; structure < RAW_STRUCTURES; structure++)
        if (stamps[structure].count != stamps[structure].highest)
            fail("structure %u: numbers are missing", structure);
}

static void add_record(unsigned lane, const struct record *record)
{
    struct events *events = &recorded.lanes[lane];
    if (record->number == RAW_THREAD_BEGIN || record->number == RAW_THREAD_END) return;
    if (record->number == RAW_LOST_STAMPS || (record->number == RAW_LOST && !run_loses))
        fail("a loss is recorded");
    add_stamp(record);
    recorded.events += record->number < CALL_KINDS || record->number == RAW_FAILED;
    if (!events->list) events->list = malloc((EVENTS_MAX + 1) * sizeof *events->list);
    if (!events->list || events->count > EVENTS_MAX) fail("lane %u: too many records", lane);
    events->list[events->count++] = (struct event){
        .number = record->number,
        .structure = record->structure,
        .size = record->size,
        .token = record->serial ? raw_token(lane, record->serial) : record->token,
    };
    if (record->number == CALL_REALLOC_MOVED) events->list[events->count - 1].token = record->token;
}

static void add_chunk(struct raw_reader *reader, struct raw_chunk *chunk)
{
    struct record records[256];
    uint32_t count;
    if (chunk->type == RAW_CHUNK_UNITS) {
        if (chunk->lane >= LANES_MAX) fail("lane %u", chunk->lane);
        struct raw_decoder *decoder = &recorded.decoders[chunk->lane];
        if (!recorded.begun[chunk->lane]) raw_decoder_init(decoder, chunk->lane, false);
        recorded.begun[chunk->lane] = true;
        raw_decoder_open(decoder, chunk);
        while ((count = raw_decoder_next(decoder, records, 256)) > 0)
            for (uint32_t i = 0; i < count; i++)
                add_record(chunk->lane, &records[i]);
        if (error_is_set(&decoder->error))
            fail("lane %u: %s", chunk->lane, text_of(&decoder->error));
    }
    raw_chunk_release(reader, chunk);
}

static void read_spool(struct raw_reader *reader, int file)
{
    char path[64];
    struct spool_reader spool;
    struct raw_chunk *chunk;
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    if (!spool_reader_open(&spool, path) || !spool_reader_belongs(&spool, reader))
        fail("the spool cannot be used: %s", text_of(&spool.error));
    while ((chunk = spool_reader_next(&spool, reader)) != NULL)
        add_chunk(reader, chunk);
    if (error_is_set(&spool.error)) fail("spool: %s", text_of(&spool.error));
    if (spool.lanes_gapped) fail("spool: a gap");
    spool_reader_close(&spool);
}

static void read_everything(int stream, int spool)
{
    static struct raw_reader reader;
    struct raw_chunk *chunk;
    raw_reader_open_fd(&reader, stream);
    while (reader.state == RAW_STREAM_MORE && (chunk = raw_reader_next(&reader)) != NULL)
        add_chunk(&reader, chunk);
    recorded.state = reader.state;
    recorded.status = reader.end.status;
    if (reader.state == RAW_STREAM_FAILED)
        fail("the stream is damaged: %s", text_of(&reader.error));
    if (reader.state == RAW_STREAM_COMPLETE && reader.end.events != recorded.events)
        fail("%" PRIu64 " events in the end chunk, %" PRIu64 " in the stream", reader.end.events,
             recorded.events);
    if (reader.state == RAW_STREAM_CUT && spool >= 0) read_spool(&reader, spool);
}

/* --- the comparison --- */

static bool is_same(const struct event *a, const struct event *b)
{
    return a->number == b->number && a->structure == b->structure &&
           (a->number == RAW_STAMP_BEFORE || a->number == RAW_STAMP_AFTER ||
            (a->size == b->size && (a->token == b->token || a->number == RAW_FAILED)));
}

/* An object whose token has no place is known to the recording only. */
static bool is_unknown_birth(const struct event *event)
{
    return event->number == CALL_MALLOC && event->token == RAW_TOKEN_UNKNOWN;
}

static void tell_difference(unsigned lane, size_t at, const struct event *is,
                            const struct event *wanted)
{
    fail("lane %u, record %zu: %u %" PRIu64 " %" PRIx64 ", not %u %" PRIu64 " %" PRIx64
         "; the stream is %s",
         lane, at, is->number, is->size, is->token, wanted->number, wanted->size, wanted->token,
         recorded.state == RAW_STREAM_COMPLETE ? "complete" : "cut");
}

static bool is_stamp(const struct event *event)
{
    return event->number == RAW_STAMP_BEFORE || event->number == RAW_STAMP_AFTER;
}

/* What need not be there is missing at the end only, unless events are lost on purpose: then the recording says
 * how many before it goes on. */
static void compare_lane(unsigned lane, bool loses)
{
    static const struct event nothing;
    const struct events *was = &done[lane], *is = &recorded.lanes[lane];
    size_t at = 0;
    uint64_t skipped = 0;
    for (size_t i = 0; i < was->count; i++) {
        struct event wanted = was->list[i];
        if (at < is->count && is->list[at].number == RAW_LOST && is->list[at].size == skipped) {
            skipped = 0;
            at++;
        }
        bool more = at < is->count;
        if (more && is_unknown_birth(&wanted)) wanted.token = is->list[at].token;
        if (more && skipped == 0 && is_same(&wanted, &is->list[at]))
            at++;
        else if (wanted.must || (more && !loses))
            tell_difference(lane, at, more ? &is->list[at] : &nothing, &wanted);
        else if (!is_stamp(&wanted))
            skipped++;
    }
    if (at < is->count && is->list[at].number == RAW_LOST && is->list[at].size == skipped) at++;
    if (at < is->count) tell_difference(lane, at, &is->list[at], &nothing);
}

static bool has_text(int file, const char *text)
{
    char found[64] = "";
    ssize_t bytes = file < 0 ? -1 : read(file, found, sizeof found);
    return bytes == (ssize_t)strlen(text) && memcmp(found, text, strlen(text)) == 0;
}

static unsigned lines_said(void)
{
    unsigned lines = 0;
    for (const char *at = fake_messages(); *at; at++)
        lines += *at == '\n';
    return lines;
}

/* What a removal that failed leaves is not ours to blame. */
static bool removal_may_fail(const struct fake_plan *plan)
{
    return plan->chance || plan->call == FAKE_REMOVE || plan->call == FAKE_LOOK ||
           plan->call == FAKE_LOOK_AT;
}

static void check_nothing_is_left(const struct fake_plan *plan)
{
    if (removal_may_fail(plan)) return;
    if (fake_file_find("/d/.malloctape", "") || fake_file_find("/tmp/", ""))
        fail("a temporary file is left");
}

static void check_not_begun(const struct run *run)
{
    if (lines_said() != 1) fail("%u lines are said", lines_said());
    const char *aside = fake_file_find("/d/.malloctape", ".older");
    if (run->scenario == OVER_NOTHING && !removal_may_fail(&run->plan) &&
        fake_file_find("/d/raw", ""))
        fail("a file is left");
    if (run->scenario == OVER_OLDER && !has_text(fake_file_get("/d/raw"), older_stream))
        fail("the older recording is lost");
    /* Where no file can be renamed any more, the spool keeps the name that it got. */
    if (run->scenario == OVER_OLDER && !has_text(fake_file_get("/d/raw.spool"), older_spool) &&
        !(aside && has_text(fake_file_get(aside), older_spool)))
        fail("the older spool is lost");
    if (!aside) check_nothing_is_left(&run->plan);
}

static bool anything_must_be_there(void)
{
    for (unsigned lane = 0; lane < LANES_MAX; lane++)
        for (size_t i = 0; i < done[lane].count; i++)
            if (done[lane].list[i].must) return true;
    return false;
}

static void check_begun(const struct run *run, enum fake_end end)
{
    bool to_file = run->scenario <= OVER_OLDER;
    const char *elsewhere = fake_file_find("/tmp/malloctape-", ".spool");
    int stream = to_file ? fake_file_get("/d/raw") : fake_reader_get();
    int spool = to_file ? fake_file_get("/d/raw.spool") : elsewhere ? fake_file_get(elsewhere) : -1;
    /* Killed while it began. */
    if (end == FAKE_KILLED && !anything_must_be_there()) return;
    if (stream < 0) fail("there is no stream");
    lseek(stream, 0, SEEK_SET);
    read_everything(stream, spool);
    for (unsigned lane = 0; lane < LANES_MAX; lane++)
        compare_lane(lane, run->loses);
    bool complete = recorded.state == RAW_STREAM_COMPLETE && recorded.status == RAW_END_STOPPED;
    if (end == FAKE_KILLED) return;
    if (lines_said() != 1) fail("%u lines are said", lines_said());
    if (!complete && !strstr(fake_messages(), "ended early")) fail("nobody is told of the error");
    if (complete && !strstr(fake_messages(), "ended early")) check_nothing_is_left(&run->plan);
    if (complete) check_stamps();
    if (!complete && spool < 0) fail("the spool has been removed");
    if (fake_open_descriptors()) fail("%u descriptors are left open", fake_open_descriptors());
}

/* --- runs --- */

static void prepare(const struct run *run)
{
    fake_os_begin(&run->plan);
    if (run->scenario == OVER_OLDER) {
        fake_file_put("/d/raw", older_stream);
        fake_file_put("/d/raw.spool", older_spool);
    }
    if (run->scenario == FIFO) fake_fifo_put("/d/fifo");
    setenv("TCMALLOC_TRACE_OUTPUT", outputs[run->scenario], 1);
    setenv("TCMALLOC_TRACE_ON_OVERLOAD", run->loses ? "lose" : "wait", 1);
    run_loses = run->loses;
    unsetenv("TMPDIR");
    capture_environ = __environ;
}

static void run_here(const struct run *run)
{
    prepare(run);
    program_begin(run);
    enum fake_end end = fake_os_run();
    if (end == FAKE_HANGS) fail("everybody waits");
    bool begun = !strstr(fake_messages(), "not recording");
    if (!begun)
        check_not_begun(run);
    else
        check_begun(run, end);
    if (run->tell) printf("# said: %s", fake_messages());
    for (int call = 0; run->count_calls && call < FAKE_CALLS; call++)
        printf("%u\n", fake_calls(call));
    fflush(stdout);
    fake_exit(0);
}

static void plan_print(const struct run *run)
{
    const struct fake_plan *plan = &run->plan;
    printf("# capture_faults_test one %s,%" PRIu64 ",%s,%u,%d,%d,%u,%" PRIu64 ",%" PRIu64
           ",%" PRIu64 ",%d,%d,%" PRIu64 "\n",
           scenario_names[run->scenario], plan->seed, fake_call_names[plan->call], plan->number,
           plan->lasting, plan->error, plan->chance, plan->kill_at, plan->reader_comes_ns,
           plan->reader_stops_at, plan->reader_goes, run->loses, plan->reader_resumes_ns);
}

/* Returns whether it went well; `counts` (may be NULL) gets how often each call was made. */
static bool run_apart(const struct run *run, unsigned *counts)
{
    int ends[2], status;
    fflush(stdout);
    if (pipe(ends) != 0) return false;
    pid_t child = fork();
    if (child == 0) {
        alarm(20);
        if (counts) dup2(ends[1], STDOUT_FILENO);
        run_here(run);
    }
    close(ends[1]);
    FILE *numbers = fdopen(ends[0], "r");
    for (int call = 0; counts && call < FAKE_CALLS; call++)
        if (fscanf(numbers, "%u", &counts[call]) != 1) counts[call] = 0;
    fclose(numbers);
    bool good = child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
                WEXITSTATUS(status) == 0;
    if (good) return true;
    if (child > 0 && WIFSIGNALED(status)) printf("# signal %d\n", WTERMSIG(status));
    plan_print(run);
    return false;
}

/* A call fails: early ones each, later ones now and then. */
static uint32_t next_number(uint32_t number)
{
    return number < 24 ? number + 1 : number * 2;
}

static unsigned fail_call(struct run run, enum fake_call call, unsigned calls, unsigned *failures)
{
    unsigned runs = 0;
    for (unsigned index = 0; fake_error_of(call, index); index++) {
        for (uint32_t number = 1; number <= calls; number = next_number(number)) {
            for (int lasting = 0; lasting < 2; lasting++) {
                run.plan.call = call;
                run.plan.number = number;
                run.plan.lasting = lasting;
                run.plan.error = fake_error_of(call, index);
                *failures += !run_apart(&run, NULL);
                runs++;
            }
        }
    }
    return runs;
}

static void each_call_fails(enum scenario scenario, unsigned test)
{
    struct run run = {.scenario = scenario, .plan = {.seed = 1 + scenario}, .count_calls = true};
    unsigned counts[FAKE_CALLS], failures = 0, runs = 1;
    failures += !run_apart(&run, counts);
    run.count_calls = false;
    for (int call = FAKE_NONE + 1; call < FAKE_ANY && failures < 10; call++)
        runs += fail_call(run, (enum fake_call)call, counts[call], &failures);
    printf("# %u runs, %u calls in each\n", runs, counts[FAKE_ANY]);
    printf("%s %u - %s: each call fails in each way\n", failures ? "not ok" : "ok", test,
           scenario_names[scenario]);
}

static uint64_t random_next(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

static struct run run_by_chance(uint64_t seed)
{
    uint64_t random = seed * UINT64_C(0x9e3779b97f4a7c15);
    struct run run = {.scenario = (enum scenario)(random_next(&random) % SCENARIOS),
                      .plan = {.seed = seed}};
    struct fake_plan *plan = &run.plan;
    run.loses = random_next(&random) % 4 == 0;
    static const uint32_t chances[] = {0, 0, 20, 300, 2000};
    plan->chance = chances[random_next(&random) % 5];
    if (random_next(&random) % 3 == 0) plan->kill_at = 1 + random_next(&random) % 1000;
    if (run.scenario == FIFO)
        plan->reader_comes_ns = random_next(&random) % 40 * UINT64_C(1000000000);
    if (run.scenario >= FIFO && random_next(&random) % 3 == 0) {
        plan->reader_stops_at = 1 + random_next(&random) % 60000;
        plan->reader_goes = random_next(&random) % 2;
    }
    /* A pause of the reader for which no spool is large enough, as it cannot grow. */
    if (run.scenario == COMMAND && random_next(&random) % 8 == 0) {
        plan->call = FAKE_ALLOCATE;
        plan->number = 2;
        plan->lasting = true;
        plan->error = ENOSPC;
        plan->reader_goes = false;
        plan->reader_stops_at = 1 + random_next(&random) % 60000;
        plan->reader_resumes_ns = UINT64_C(600000000) + random_next(&random) % 800000000;
        run.loses = random_next(&random) % 2;
    }
    return run;
}

static void chances_are_taken(unsigned runs, uint64_t seed, unsigned test)
{
    unsigned failures = 0;
    for (unsigned i = 0; i < runs && failures < 10; i++) {
        struct run run = run_by_chance(seed + i);
        failures += !run_apart(&run, NULL);
    }
    printf("# %u runs from seed %" PRIu64 "\n", runs, seed);
    printf("%s %u - faults by chance\n", failures ? "not ok" : "ok", test);
}

static bool plan_parse(const char *text, struct run *run)
{
    char scenario[32], call[32];
    struct fake_plan *plan = &run->plan;
    int lasting, goes, loses;
    if (sscanf(text,
               "%31[^,],%" SCNu64 ",%31[^,],%u,%d,%d,%u,%" SCNu64 ",%" SCNu64 ",%" SCNu64
               ",%d,%d,%" SCNu64,
               scenario, &plan->seed, call, &plan->number, &lasting, &plan->error, &plan->chance,
               &plan->kill_at, &plan->reader_comes_ns, &plan->reader_stops_at, &goes, &loses,
               &plan->reader_resumes_ns) != 13)
        return false;
    plan->lasting = lasting;
    plan->reader_goes = goes;
    run->loses = loses;
    bool known = false;
    for (int i = 0; i < FAKE_CALLS; i++) {
        if (strcmp(fake_call_names[i], call) != 0) continue;
        plan->call = (enum fake_call)i;
        known = true;
    }
    for (int i = 0; i < SCENARIOS; i++) {
        if (strcmp(scenario_names[i], scenario) != 0) continue;
        run->scenario = (enum scenario)i;
        return known;
    }
    return false;
}

static uint64_t number_from(const char *variable, uint64_t otherwise)
{
    const char *text = getenv(variable);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

int main(int count, char **words)
{
    struct run run = {.tell = true};
    if (count == 3 && strcmp(words[1], "one") == 0 && plan_parse(words[2], &run)) run_here(&run);
    if (count != 1) {
        fputs("usage: see the head of tests/capture_faults_test.c\n", stderr);
        return 2;
    }
#ifdef __SANITIZE_THREAD__
    puts("1..0 # SKIP ThreadSanitizer knows nothing of fibers");
    return 0;
#endif
    printf("1..%d\n", SCENARIOS + 1);
    for (unsigned scenario = 0; scenario < SCENARIOS; scenario++)
        each_call_fails((enum scenario)scenario, scenario + 1);
    chances_are_taken((unsigned)number_from("MALLOCTAPE_RUNS", 500),
                      number_from("MALLOCTAPE_SEED", (uint64_t)getpid()), SCENARIOS + 1);
    fflush(stdout);
    fake_exit(0);
}
