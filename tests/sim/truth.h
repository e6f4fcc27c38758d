/* truth - what really happened in a simulated program: every record in the one true order.
 *
 * The simulated threads append to it as they run; the raw stream is written along the way, and the
 * checker compares what came out of ordering with it. Objects are named by their index in
 * `objects`, which says nothing about lanes and serials; 0 is no object. */
#ifndef TESTS_SIM_TRUTH_H
#define TESTS_SIM_TRUTH_H

#include <cstdint>
#include <map>
#include <string>
#include <vector>

/* FORMAT.md 3. */
enum RecordNumber : uint8_t {
    kThreadBegin = 48,
    kThreadEnd = 49,
    kThreadCacheDeleted = 50,
    kSequenceBefore = 51,
    kSequenceAfter = 52,
    kLost = 53,
    kFailed = 54,
    kAfter = 55,
    kClass = 56,
    kCacheBegin = 57,
    kCached = 58,
    kUncached = 59,
    kInside = 60,
    kPage = 61,
    kStack = 62,
    kDefine = 63
};

constexpr uint32_t kStructures = 256;
constexpr uint32_t kPageHeapStructure = 255;

enum Shape : uint8_t { kNoShape, kAllocation, kRealloc, kFree, kHeap };

/* What a kind of call has, from the list of kinds (common/call_kind.h). */
struct KindTraits {
    Shape shape;
    bool sized, aligned;
};
extern const KindTraits kind_traits[48];

using ObjectId = uint32_t;

struct Object {
    uint64_t address = 0;
    uint64_t bytes = 0;      /* that it has of its block */
    uint32_t size_class = 0; /* the allocator's */
    uint32_t span = 0;
    uint32_t place = 0; /* number, and class, FORMAT.md 2.5 */
    uint32_t place_class = 0;
    uint32_t number = 0; /* the allocator's, of its place */
    uint32_t lane = 0;
    uint64_t serial = 0;   /* 0: the allocation was not recorded and has no number */
    bool recorded = false; /* its allocation is in the stream; not so if it was lost */
    bool lost = false;
};

constexpr uint32_t kNever = UINT32_MAX;

/* So many calls of a lane. */
struct After {
    uint32_t lane;
    uint64_t calls;
};

struct Record {
    uint8_t number = 0;
    uint8_t kind = 0;  /* of a failed call; else the number */
    uint8_t count = 0; /* of numbers of a HEAP call: they are `size` and `alignment` */
    uint16_t lane = 0;
    uint32_t structure = 0;
    ObjectId ends = 0, begins = 0; /* of a failed realloc: `ends` stays */
    uint32_t window = kNever;      /* of the chunk that brings it */
    /* Sequence numbers: the number; thread_begin: the thread; lost: events, allocations. */
    uint64_t size = 0, alignment = 0;
    bool has_object =
        false; /* a FREE or REALLOC, failed or not; `ends` 0 is then an object made before */
    bool unknown = false; /* and the stream says so */
    bool implied = false; /* its place is the first of its thread's list of the smallest class */
    uint64_t bound = 0;   /* allocations that the lane of `ends` had had */
    std::vector<After> after; /* of an opaque stream: whom what begins comes after */
    uint32_t stack = 0;       /* node of a call that begins an object or failed; 0: none */
    bool in_stream = true;    /* false: cut off with the end of its lane */
};

inline bool is_sequence(const Record &record)
{
    return record.number == kSequenceBefore || record.number == kSequenceAfter;
}

/* Records that are neither in the order nor shape it. */
inline bool is_silent(const Record &record)
{
    return record.number >= kAfter;
}

/* Whether the instruction stream has something for it. */
inline bool is_visible(const Record &record)
{
    return !is_sequence(record) && !is_silent(record);
}

inline bool is_call(const Record &record)
{
    return record.number < 48 || record.number == kFailed;
}

/* Whether bounds count it. */
inline bool counts(const Record &record, bool opaque)
{
    if (record.begins != 0) return true;
    return opaque && record.number < 48 && kind_traits[record.number].shape == kFree;
}

/* A call stack: its innermost code and the rest (FORMAT.md 2.8). */
struct StackNode {
    uint32_t parent, code;
};
constexpr uint32_t kFirstNode = 8;

struct Tick {
    uint64_t nanoseconds, rss, heap;
    std::vector<uint64_t>
        usage; /* four numbers and statistics, or the recorder does not say them */
};

/* A record of a mapping (FORMAT.md 4.5): its numbers, with the address in place of a difference; or a
 * residency (4.6), whose payload is the name. */
struct Passed {
    std::vector<uint64_t> numbers;
    std::string name;
    bool is_residency = false, is_void = false;
    std::vector<uint64_t> runs; /* of pages that were touched */
    uint32_t window = 0;        /* of its chunk, or block */

    /* It says which pages of an object were resident, and is not passed on. */
    bool is_touched() const { return !is_residency && numbers[0] % 16 == 12; }
};

struct Truth {
    std::vector<Record> records; /* in the true order */
    std::vector<Object> objects{1};
    std::vector<Tick> ticks;
    std::vector<Passed> passed; /* in the stream */
    std::map<uint64_t, std::vector<uint64_t>>
        touched; /* by size: which pages the latest record in the stream says were resident */
    std::vector<StackNode> nodes;             /* from kFirstNode on */
    std::vector<std::vector<uint32_t>> lanes; /* indexes into records */
    uint32_t windows_in_stream = 0;
    uint64_t lost_events = 0; /* as said by the `lost` records in the stream */
    bool has_header = true, has_end = true;
    uint32_t end_status = 0;
    bool whole_units = true; /* no call was interrupted in the middle */
};

#endif
