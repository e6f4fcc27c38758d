/* Recordings, and orders of them, right and wrong. */
#include <map>
#include <sstream>

#include "common/call_kind.h"
#include "tests/samples/instruction_builder.h"
#include "tests/samples/raw_sample.h"
#include "tests/samples/samples.h"

namespace {

using Register = InstructionBuilder::Register;
constexpr Register kUnknown = InstructionBuilder::kUnknown;

/* --- a recording of two lanes; names in the comments are those of the steps below --- */

void write_first_window(RawSample &raw)
{
    raw.records(0, [&] {
        raw.thread_begin(0, 11); /* a1 */
        raw.cache_begin(0);
        raw.sequence(0, 51, 3, 1);
        raw.sequence(0, 51, 255, 1);
        raw.size_class(0, 1, 48);
        raw.cached(0, 1, {64, 65, 66});
        raw.allocate(CALL_MALLOC, 24);                     /* a2 */
        raw.allocate(CALL_MALLOC, 25);                     /* a3 */
        raw.freeing(0, CALL_FREE, RawSample::token(0, 2)); /* a4 */
        raw.sequence(0, 52, 3, 3);
    });
    raw.records(1, [&] {
        raw.thread_begin(1, 12); /* b1 */
        raw.cache_begin(1);
        raw.sequence(1, 51, 3, 2);
        raw.size_class(1, 1, 48);
        raw.size_class(1, 2, 96);
        raw.cached(1, 1, {70, 71});
        raw.cached(1, 2, {130});
        raw.allocate(CALL_NEW, 48);                                          /* b2 */
        raw.end(CALL_REALLOC_MOVED, RawSample::foreign(0, 1, 64, 1), 72, 0); /* b3 */
    });
}

/* Structure 3 is entered in the order a2, b2, a4, b4, b6. */
std::string recording()
{
    RawSample raw;
    write_first_window(raw);
    raw.tick(10000000, 4096, 0);
    raw.records(0, [&] { /* a5 */
                         raw.end(CALL_DELETE_SIZED, RawSample::foreign(1, 2, 70, 1), 48, 0);
    });
    raw.records(1, [&] {
        raw.sequence(1, 51, 3, 4);
        raw.cached(1, 2, {131});
        raw.allocate(CALL_MEMALIGN, 96, 32);             /* b4 */
        raw.freeing(1, CALL_FREE, RawSample::unknown()); /* b5 */
        raw.thread_cache_deleted(1);                     /* b6 */
        raw.sequence(1, 52, 3, 5);
        raw.thread_end(1); /* b7 */
    });
    raw.tick(20000000, 8192, 0);
    raw.tick(30000000, 8192, 0);
    raw.records(0, [&] { raw.failed(0, CALL_MALLOC, uint64_t{1} << 62); }); /* a6 */
    return raw.finish();
}

using Out = InstructionBuilder;
using Registers = std::map<std::string, Register>;
using Step = void (*)(Out &, Registers &);

const std::map<std::string, Step> kSteps = {
    {"a1", [](Out &out, Registers &) { out.thread_begin(11); }},
    {"a2", [](Out &out, Registers &r) { r["a2"] = out.allocate(CALL_MALLOC, 24); }},
    {"a3", [](Out &out, Registers &r) { r["a3"] = out.allocate(CALL_MALLOC, 25); }},
    {"a4", [](Out &out, Registers &r) { out.free(CALL_FREE, r["a3"]); }},
    {"a5", [](Out &out, Registers &r) { out.free(CALL_DELETE_SIZED, r["b2"], 48); }},
    {"a6",
     [](Out &out, Registers &) {
         out.call(CALL_MALLOC, kUnknown, {uint64_t{1} << 62, 0, 0, true});
     }},
    {"b1", [](Out &out, Registers &) { out.thread_begin(12); }},
    {"b2", [](Out &out, Registers &r) { r["b2"] = out.allocate(CALL_NEW, 48); }},
    {"b3", [](Out &out, Registers &r) { out.realloc(CALL_REALLOC_MOVED, r["a2"], 72); }},
    {"b4",
     [](Out &out, Registers &) {
         out.call(CALL_MEMALIGN, kUnknown, {96, 32, 0, false});
     }},
    {"b5", [](Out &out, Registers &) { out.free(CALL_FREE, kUnknown); }},
    {"b6", [](Out &out, Registers &) { out.thread_cache_deleted(); }},
    {"b7", [](Out &out, Registers &) { out.thread_end(); }},
    {"t1", [](Out &out, Registers &) { out.tick(10000000, 4096, 0); }},
    {"t2", [](Out &out, Registers &) { out.tick(10000000, 8192, 0); }},
    {"t3", [](Out &out, Registers &) { out.tick(10000000, 8192, 0); }},
    /* Wrong ones. */
    {"a3_size", [](Out &out, Registers &r) { r["a3"] = out.allocate(CALL_MALLOC, 26); }},
    {"a3_kind", [](Out &out, Registers &r) { r["a3"] = out.allocate(CALL_CALLOC, 25); }},
    {"a4_object", [](Out &out, Registers &r) { out.free(CALL_FREE, r["a2"]); }},
    {"a4_unknown", [](Out &out, Registers &) { out.free(CALL_FREE, kUnknown); }},
    {"a6_made", [](Out &out, Registers &) { out.allocate(CALL_MALLOC, uint64_t{1} << 62); }},
    {"b4_alignment",
     [](Out &out, Registers &) { out.call(CALL_MEMALIGN, kUnknown, {96, 64, 0, false}); }},
    {"t2_late", [](Out &out, Registers &) { out.tick(10000001, 8192, 0); }}};

std::string order_of(const char *steps)
{
    InstructionBuilder out;
    Registers registers;
    uint64_t current = 0;
    std::istringstream names(steps);
    for (std::string name; names >> name;) {
        uint64_t lane = name[0] == 't' ? current : static_cast<uint64_t>(name[0] - 'a');
        if (lane != current) out.lane(current = lane);
        kSteps.at(name)(out, registers);
    }
    return out.finish();
}

const struct {
    const char *name, *steps;
} kOrders[] = {{"good", "a1 a2 a3 b1 b2 b3 a4 t1 b4 b5 b6 b7 a5 t2 t3 a6"},
               /* One early, one late. */
               {"good_windows", "a1 a2 a3 b1 b2 b3 a4 a5 b4 t1 b5 t2 b6 b7 t3 a6"},
               /* b2 within a2. */
               {"good_overlap", "a1 b1 b2 a2 a3 b3 a4 t1 b4 b5 b6 b7 a5 t2 t3 a6"},
               {"bad_missing", "a1 a2 a3 b1 b2 b3 a4 t1 b4 b5 b6 b7 a5 t2 t3"},
               {"bad_skipped", "a1 a2 a3 b1 b2 b3 a4 t1 b5 b6 b7 a5 t2 t3 a6"},
               {"bad_twice", "a1 a2 a3 b1 b2 b3 a4 t1 b4 b5 b6 b7 a5 t2 t3 a6 a6"},
               {"bad_size", "a1 a2 a3_size b1 b2 b3 a4 t1 b4 b5 b6 b7 a5 t2 t3 a6"},
               {"bad_kind", "a1 a2 a3_kind b1 b2 b3 a4 t1 b4 b5 b6 b7 a5 t2 t3 a6"},
               {"bad_alignment", "a1 a2 a3 b1 b2 b3 a4 t1 b4_alignment b5 b6 b7 a5 t2 t3 a6"},
               {"bad_outcome", "a1 a2 a3 b1 b2 b3 a4 t1 b4 b5 b6 b7 a5 t2 t3 a6_made"},
               /* a5 came after b3. */
               {"bad_bound", "a1 a2 a3 b1 b2 a4 a5 b3 t1 b4 b5 b6 b7 t2 t3 a6"},
               {"bad_object", "a1 a2 a3 b1 b2 a4_object t1 t2 t3"},
               {"bad_unknown", "a1 a2 a3 b1 b2 b3 a4_unknown t1 b4 b5 b6 b7 a5 t2 t3 a6"},
               {"bad_number", "a1 a2 a3 b1 b2 b3 t1 b4 a4 b5 b6 b7 a5 t2 t3 a6"},
               /* a4 before b2, its number after b2's. */
               {"good_unit", "a1 a2 a3 b1 a4 b2 b3 t1 b4 b5 b6 b7 a5 t2 t3 a6"},
               {"bad_late", "a1 a2 a3 b1 b2 b3 a4 t1 b4 b5 b6 b7 t2 t3 a5 a6"},
               {"bad_early", "a1 a2 a3 b1 b2 b3 a4 t1 b4 b5 b6 b7 a5 a6 t2 t3"},
               {"bad_tick", "a1 a2 a3 b1 b2 b3 a4 t1 b4 b5 b6 b7 a5 t2_late t3 a6"},
               {"bad_ticks", "a1 a2 a3 b1 b2 b3 a4 t1 b4 b5 b6 b7 a5 t2 a6"}};

/* --- others --- */

/* Two calls that entered two structures and overtook each other in between: no order of whole calls
 * is right. */
std::string interleaved_raw()
{
    RawSample raw;
    for (uint32_t lane : {0, 1})
        raw.records(lane, [&] {
            raw.sequence(lane, 51, lane == 0 ? 3 : 255, 1);
            raw.sequence(lane, 51, lane == 0 ? 255 : 3, 2);
            raw.allocate(CALL_MALLOC, 24);
        });
    return raw.finish();
}

std::string interleaved_order()
{
    InstructionBuilder out;
    for (uint64_t lane : {1, 0}) {
        out.lane(lane);
        out.allocate(CALL_MALLOC, 24);
    }
    return out.finish();
}

/* What a thread off its processor writes windows later, and another thread waits for: a sequence
 * number, an object. */
std::string waits_raw()
{
    RawSample raw;
    raw.records(1, [&] {
        raw.sequence(1, 51, 3, 2);
        raw.allocate(CALL_MALLOC, 1);
        raw.freeing(1, CALL_FREE, RawSample::foreign(0, 1, 5));
    });
    for (uint64_t i = 1; i <= 3; i++)
        raw.tick(i * 10000000, 4096, 0);
    raw.records(0, [&] {
        raw.sequence(0, 51, 3, 1);
        raw.allocation_at(0, CALL_MALLOC, 2, 5, 0);
    });
    return raw.finish();
}

std::string forced_order(int ticks_before, int ticks_behind)
{
    InstructionBuilder out;
    for (int i = 0; i < ticks_before; i++)
        out.tick(10000000, 4096, 0);
    out.lane(0);
    Register object = out.allocate(CALL_MALLOC, 2);
    out.lane(1);
    out.allocate(CALL_MALLOC, 1);
    out.free(CALL_FREE, object);
    for (int i = 0; i < ticks_behind; i++)
        out.tick(10000000, 4096, 0);
    return out.finish();
}

/* A recording that is wrong: a place where this lane has made no object. */
std::string place_raw()
{
    RawSample raw;
    raw.records(0, [&] {
        raw.cache_begin(0);
        raw.size_class(0, 1, 24);
        raw.cached(0, 1, {64, 65});
        raw.allocate(CALL_MALLOC, 24);
        raw.freeing(0, CALL_FREE, RawSample::own(65));
    });
    return raw.finish();
}

std::string place_order()
{
    InstructionBuilder out;
    out.free(CALL_FREE, out.allocate(CALL_MALLOC, 24));
    return out.finish();
}

/* A pause hid the end of the first object at a place. The second one ended, after a realloc of it
 * failed. That comes late and is of nobody. */
std::string failure_raw()
{
    RawSample raw;
    raw.records(0, [&] {
        raw.allocation_at(0, CALL_MALLOC, 24, 65, 0);
        raw.allocation_at(0, CALL_MALLOC, 25, 65, 0);
        raw.freeing(0, CALL_FREE, RawSample::own(65));
    });
    raw.records(
        1, [&] { raw.failed(1, CALL_REALLOC_MOVED, 1 << 20, 0, RawSample::foreign(0, 2, 65)); });
    return raw.finish();
}

std::string failure_order(bool of_nobody)
{
    InstructionBuilder out;
    InstructionBuilder::Register first = out.allocate(CALL_MALLOC, 24);
    out.free(CALL_FREE, out.allocate(CALL_MALLOC, 25));
    out.lane(1);
    out.call(CALL_REALLOC_MOVED, of_nobody ? kUnknown : first, {1 << 20, 0, 0, true});
    return out.finish();
}

/* The free of the first object at a place was missed. */
std::string missed_raw(bool attached)
{
    RawStreamHeader header = RawSample::header();
    if (attached) header.metadata += "attached=1\n";
    RawSample raw(header);
    raw.records(0, [&] {
        raw.allocation_at(0, CALL_MALLOC, 24, 65, 0);
        raw.allocation_at(0, CALL_MALLOC, 25, 66, 0);
        raw.allocation_at(0, CALL_MALLOC, 26, 65, 0);
    });
    return raw.finish();
}

/* Which object's free is said to have been missed, from 0; -1: none. */
std::string missed_order(int which)
{
    InstructionBuilder out;
    Register first = out.allocate(CALL_MALLOC, 24), second = out.allocate(CALL_MALLOC, 25);
    if (which >= 0) {
        out.other(58, {});
        out.free(CALL_FREE, which == 0 ? first : second);
    }
    out.allocate(CALL_MALLOC, 26);
    return out.finish();
}

/* What the end of a recording may lack: an allocation and a number; and losses in the middle. */
std::string lacking_raw()
{
    RawSample raw;
    RawEnd end;
    end.lost = 5;
    raw.records(0, [&] {
        raw.allocate(CALL_MALLOC, 1);
        raw.lost(0, 5, 2);
        raw.freeing(0, CALL_FREE, RawSample::token(0, 2));
    });
    raw.records(1, [&] {
        raw.freeing(1, CALL_FREE, RawSample::token(0, 7)); /* not allocated in the recording */
        raw.sequence(1, 52, 3, 2);                         /* nobody has number 1 */
    });
    return raw.finish(end);
}

std::string lacking_order()
{
    InstructionBuilder out;
    out.allocate(CALL_MALLOC, 1);
    out.lost(0, 5);
    out.free(CALL_FREE, kUnknown);
    out.lane(1);
    out.free(CALL_FREE, kUnknown);
    return out.finish();
}

/* The allocator's break and a mapping of it, with an object each; then the program gives up the latter,
 * and after a while, or never, the allocator maps it again, and there is an object once more. */
std::string mapped_raw(uint64_t ticks_until_mapped, const char *metadata = "")
{
    const uint64_t at = 0x7f0000000000, own = 16 * 2, all = 1200;
    const auto record = [&](std::vector<uint64_t> numbers) {
        std::string to;
        for (uint64_t number : numbers)
            bytes::put_varint(to, number);
        return to;
    };
    RawStreamHeader header = RawSample::header();
    header.info = header.features = 1;
    header.metadata += metadata;
    RawSample raw(header);
    const std::string map = record({1 + own, 7, bytes::zigzag(at), 8192, 3, 0x22, 0});
    raw.chunk(4, 0, 0, record({9 + own, 7, bytes::zigzag(0x200000), 0, 0, 0, 0}), 2, 0, 0);
    raw.chunk(4, 0, 0, map, 2, 2, 0);
    raw.tick(10000000, 4096, 0);
    raw.records(0, [&] { raw.allocate(CALL_MALLOC, 24, 0, 0x1fff00); });
    raw.records(0, [&] { raw.allocate(CALL_MALLOC, 4096, 0, at + 4096); });
    raw.tick(20000000, 4096, 0);
    raw.chunk(4, 0, 0, record({2, 7, bytes::zigzag(at), 8192, 0, 0, 0}), 2, 4, 0);
    for (uint64_t tick = 3; tick <= all; tick++) {
        if (tick == 6) raw.records(0, [&] { raw.allocate(CALL_MALLOC, 24, 0, at + 64); });
        if (tick == 6 + ticks_until_mapped) raw.chunk(4, 0, 0, map, 2, 6, 0);
        raw.tick(tick * 10000000, 4096, 0);
    }
    return raw.finish();
}

} // namespace

void add_verify_samples(Samples *samples)
{
    samples->push_back({"verify_raw", recording});
    for (const auto &order : kOrders)
        samples->push_back(
            {std::string("verify_") + order.name, [&order] { return order_of(order.steps); }});
    samples->insert(samples->end(), {{"verify_interleaved_raw", interleaved_raw},
                                     {"verify_interleaved_order", interleaved_order},
                                     {"verify_waits_raw", waits_raw},
                                     {"verify_forced_early", [] { return forced_order(0, 3); }},
                                     {"verify_forced_late", [] { return forced_order(3, 0); }},
                                     {"verify_place_raw", place_raw},
                                     {"verify_place_order", place_order},
                                     {"verify_failure_raw", failure_raw},
                                     {"verify_failure_late", [] { return failure_order(true); }},
                                     {"verify_failure_other", [] { return failure_order(false); }},
                                     {"verify_missed_raw", [] { return missed_raw(true); }},
                                     {"verify_unmissed_raw", [] { return missed_raw(false); }},
                                     {"verify_missed_order", [] { return missed_order(0); }},
                                     {"verify_missed_other", [] { return missed_order(1); }},
                                     {"verify_missed_silent", [] { return missed_order(-1); }},
                                     {"verify_mapped_raw", [] { return mapped_raw(50); }},
                                     {"verify_unmapped_raw", [] { return mapped_raw(2000); }},
                                     {"verify_unmapped_attached",
                                      [] { return mapped_raw(2000, "attached=1\n"); }},
                                     {"verify_lacking_raw", lacking_raw},
                                     {"verify_lacking_order", lacking_order}});
}
