/* owners - who has the memory of the process: all of RSS, at each time at which the recorder looked at
 * what was resident (reading/resident.h), and above all at its peak and at the end.
 *
 *   mappings, residency --owners_follow()--> looks: parts by owner --owners_make()--> rows
 *
 *   RSS of the kernel == alive + rounded up + free in the heap + mappings, by the code that made them
 *                        + stacks + files + shared memory + libc's own + the recorder's + unowned
 *
 * The heap's part is divided by what the stream knows of objects at that time: what is alive, but at
 * most what is resident; what rounding adds to that, estimated; the rest is free, or of objects from
 * before the recording.
 *
 * What is mapped while the recorder looks may be resident before it is recorded: memory of which no
 * call is known is claimed by one that comes soon after.
 *
 * Of many looks some are dropped: those at the peak and at the end stay.
 *
 * Memory: 96 bytes for each owner in a look. One thread. */
#ifndef MALLOCTAPE_REPORT_OWNERS_H
#define MALLOCTAPE_REPORT_OWNERS_H

#include "reading/resident.h"
#include "report/by_code.h"
#include "report/rounding.h"
#include "report/tally.h"

enum { OWNERS_LOOKS_MAX = 512 };

/* So much is all of the peak, in words. */
#define OWNERS_NEAR(peak) ((peak) - (peak) / 100)

/* X(IDENTIFIER, "name"): what a row is. The heap's come first. */
#define OWNERS_KIND_LIST(X) \
    X(ALIVE, "alive")       \
    X(ROUNDING, "rounding") \
    X(FREE, "free")         \
    X(MAPPED, "mapped")     \
    X(STACKS, "stacks")     \
    X(SHARED, "shared")     \
    X(FILE, "file")         \
    X(LIBC, "libc")         \
    X(RECORDER, "recorder") \
    X(UNOWNED, "unowned")

struct owners_name;

enum owners_kind {
#define OWNERS_KIND_ENUM(identifier, name) OWNERS_##identifier,
    OWNERS_KIND_LIST(OWNERS_KIND_ENUM)
#undef OWNERS_KIND_ENUM
        OWNERS_KINDS
};
extern const char *const owners_kinds[OWNERS_KINDS];

/* Bytes. */
struct owners_amount {
    uint64_t resident, proportional, huge, swapped;
    uint64_t by_kind[RESIDENT_KINDS]; /* of a file */
    uint64_t pieces;                  /* stacks: how many */
};

/* An owner in a look. */
struct owners_part {
    enum resident_owner owner;
    uint32_t stack, name; /* of MAPPED and SHARED a node, or 0; of FILE and MAPPED a text, or 0 */
    uint64_t start, end;  /* bytes: where it lies, until parts are joined */
    struct owners_amount amount;
};

struct owners_look {
    uint64_t ns, call, live_bytes;
    enum residency_why why;
    bool is_brief;     /* only `resident` is known */
    bool is_estimate;  /* memory that several mappings share was divided by length */
    uint64_t resident; /* bytes: of all */
    uint64_t recorder; /* bytes: of the recorder, its code and static data included; 0: not known */
    struct owners_part *parts;
    size_t count, room;
};

struct owners_row {
    enum owners_kind kind;
    const char *name; /* a function or a path, printable; "": none */
    struct owners_amount at_peak, at_end;
    uint64_t *over_time; /* bytes, by look */
};

struct owners {
    bool is_known; /* there is a look */
    struct mapping_table mappings;
    struct owners_look *looks; /* in order */
    size_t looks_count, looks_room;
    size_t peak, end;        /* looks */
    size_t details;          /* the peak, or, if that is brief, a look near it that is not */
    struct owners_row *rows; /* by kind; of a kind, those that have most at the peak come first */
    size_t rows_count, rows_room;
    bool no_memory;

    /* From here on: owners.c only. */
    const struct tally *tally;
    struct strings names;
    struct owners_look *now;
    struct resident_dividing dividing; /* what is known of the allocator */
    uint64_t every, passed;            /* one in so many looks is kept; how many there were */
    bool latest_stays;                 /* the latest look is one of those */
    struct owners_name *of_stacks;     /* by node */
    size_t of_stacks_count;
};

/* Call once the header is read. `allocator`: its name, as recorded. False: no memory. */
bool owners_follow(struct owners *owners, struct instruction_reader *reader,
                   const struct tally *tally, const char *allocator);
void owners_close(struct owners *owners);

/* After each batch: how much the recorder has, as the first tick in it says. */
void owners_take_recorder(struct owners *owners);

/* After the last block: finds the looks at the peak and at the end. */
void owners_end(struct owners *owners);

/* Tells a tally which stacks mapped what was resident at the peak, before that ends. False: no
 * memory. */
bool owners_tell(const struct owners *owners, struct stack_tally *stacks);

/* What the recorded allocator adds to so many bytes by rounding, as at the peak, by its own rules; 0:
 * they are not known. */
uint64_t owners_rounding(const struct rounded rounded[ROUNDINGS], const char *allocator,
                         uint64_t bytes);

/* Makes the rows. `code` names stacks, if it is known. False: no memory. */
bool owners_make(struct owners *owners, const struct by_code *code,
                 const struct rounded rounded[ROUNDINGS], const char *allocator);

/* What is known in detail of all but the recorder's own, at or near the peak: in huge pages, swapped,
 * proportional. */
struct owners_amount owners_details(const struct owners *owners);

/* RSS at the peak, or at the end, without the recorder's own. */
uint64_t owners_resident(const struct owners *owners, bool at_end);

/* The bytes of a kind at the peak, or at the end. */
uint64_t owners_of_kind(const struct owners *owners, enum owners_kind kind, bool at_end);

#endif
