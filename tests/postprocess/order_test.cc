/* Ordering: small streams whose order is known, simulated programs checked against what
 * happened, damage. */
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <map>
#include <string>
#include <vector>

#include "common/call_table.h"
#include "postprocess/order_trace.h"
#include "stream/instruction_reader.h"
#include "tests/memory_file.h"
#include "tests/raw_builder.h"
#include "tests/raw_simulator.h"
#include "tests/test_size.h"

namespace {

/* An instruction with the lane it is of. */
struct Instruction {
    uint64_t lane;
    unsigned opcode;
    uint32_t object;
    uint64_t size;
    std::vector<uint64_t> operands;
};

struct Ordered {
    order_trace_result result = {};
    std::string error;
    instruction_state state = INSTRUCTIONS_FAILED;
    instruction_status end_status = INSTRUCTION_STATUS_COMPLETE;
    std::string metadata;
    std::vector<Instruction> all; /* without lane */
    std::vector<uint64_t> addresses;

    /* One word for each instruction: lane, name, and what names the object or the size. */
    std::string text() const
    {
        std::string words;
        for (const Instruction &one : all) {
            unsigned number = one.opcode & INSTRUCTION_NUMBER_MASK;
            words += words.empty() ? "" : " ";
            words += std::to_string(one.lane) + ":";
            words += instruction_name(number);
            if (number == INSTRUCTION_TICK) words += std::to_string(one.operands[0]);
            if (number < CALL_KINDS && one.size != 0) words += std::to_string(one.size);
            if ((one.opcode & INSTRUCTION_FAILED) != 0) words += "!";
            if ((one.opcode & INSTRUCTION_UNKNOWN) != 0) words += "?";
        }
        return words;
    }
};

void read_instructions(const MemoryFile &file, Ordered *ordered)
{
    input input;
    instruction_reader reader;
    instruction_batch batch;
    uint64_t lane = 0;
    file.rewind();
    input_open_fd(&input, file.fd());
    if (instruction_reader_open(&reader, &input))
        ordered->metadata.assign(reader.header.metadata, reader.header.metadata_bytes);
    while (instruction_reader_next(&reader, &batch)) {
        instruction_walk walk = instruction_walk_over(&batch, batch.count);
        instruction one;
        while (instruction_walk_next(&walk, &one)) {
            const uint64_t *operands = batch.operands + one.operand_at;
            if (instruction_number(&one) == INSTRUCTION_LANE) {
                lane = operands[0];
                continue;
            }
            ordered->all.push_back(
                {lane, one.opcode, one.object, one.size, {operands, operands + one.operands}});
            ordered->addresses.push_back(batch.addresses != nullptr ? batch.addresses[walk.at - 1]
                                                                    : 0);
        }
    }
    ordered->state = reader.state;
    ordered->end_status = reader.end_status;
    instruction_reader_close(&reader);
    input_close(&input);
}

Ordered order(const std::string &raw, const std::string *spool = nullptr, order_options how = {})
{
    Ordered ordered;
    MemoryFile in(raw), out, spool_file(spool != nullptr ? *spool : "");
    raw_reader reader;
    output output;
    char text[512];
    raw_reader_open_fd(&reader, in.fd());
    output_open_fd(&output, out.fd());
    std::string spool_path = spool_file.path();
    order_trace_options options = {};
    options.spool_path = spool != nullptr ? spool_path.c_str() : nullptr;
    options.order = how;
    order_trace(&reader, &options, &output, &ordered.result);
    output_close(&output);
    raw_reader_close(&reader);
    if (error_is_set(&ordered.result.error))
        ordered.error = error_text(&ordered.result.error, text, sizeof text);
    read_instructions(out, &ordered);
    return ordered;
}

/* What most of these programs are made of. */
class Lanes : public RawBuilder {
  public:
    using RawBuilder::RawBuilder;

    uint64_t makes(uint32_t lane, uint64_t size) { return allocation(lane, kMalloc, size); }
    void frees(uint32_t lane, uint64_t object) { freeing(lane, kFree, object); }
    void frees(uint32_t lane, const Object &object) { freeing(lane, kFree, object); }

    /* A malloc that is entry `number` into a structure. */
    uint64_t enters(uint32_t lane, unsigned structure, uint64_t number, uint64_t size)
    {
        sequence(lane, RAW_SEQUENCE_BEFORE, structure, number);
        return makes(lane, size);
    }

    /* Nothing follows, and nothing is wrong. */
    Ordered ordered()
    {
        end();
        Ordered result = order(bytes);
        EXPECT_EQ(result.error, "");
        return result;
    }
};

/* --- two lanes --- */

TEST(Order, OneLaneKeepsItsOrder)
{
    Lanes raw(0, "program=p\nallocator=a\nenv.X=1\nother=2\n");
    raw.thread_begin(0, 7);
    uint64_t a = raw.makes(0, 24);
    uint64_t b = raw.allocation(0, RawBuilder::kMemalign, 32, 64);
    raw.frees(0, a);
    uint64_t c = raw.realloc(0, RawBuilder::kReallocInPlace, b, 40);
    raw.heap(0, RawBuilder::kReleaseMemory, {5});
    raw.failed(0, RawBuilder::kMalloc, 1 << 30);
    raw.failed(0, RawBuilder::kReallocInPlace, 1 << 20, 0, c);
    raw.freeing(0, RawBuilder::kDeleteSized, c, 40);
    raw.thread_cache_deleted(0);
    raw.thread_end(0);
    Ordered ordered = raw.ordered();
    EXPECT_EQ(ordered.result.status, ORDER_TRACE_COMPLETE);
    EXPECT_EQ(ordered.state, INSTRUCTIONS_END);
    EXPECT_EQ(ordered.end_status, INSTRUCTION_STATUS_COMPLETE);
    EXPECT_EQ(ordered.text(), "0:thread_begin 0:malloc24 0:memalign32 0:free 0:realloc_in_place40 "
                              "0:release_memory 0:malloc1073741824! 0:realloc_moved1048576! "
                              "0:delete_sized40 0:thread_cache_deleted 0:thread_end");
    EXPECT_EQ(ordered.all[4].object, ordered.all[2].object) << "a realloc keeps its register";
    EXPECT_EQ(
        ordered.metadata.find("run=30313233343536373839616263646566\npid=4711\nstart=1700000000\n"),
        0u);
    EXPECT_NE(ordered.metadata.find("program=p\nallocator=a\nenv.X=1\n"), std::string::npos);
    EXPECT_NE(ordered.metadata.find("other"), std::string::npos) << "what is unknown, too";
    EXPECT_EQ(ordered.result.totals.calls, 8u);
    EXPECT_EQ(ordered.result.totals.live, 0u);
    EXPECT_EQ(ordered.result.order.failed, 2u);
}

TEST(Order, AllocationsPrecedeFreesInBothDirections)
{
    /* Each lane frees what the other one makes, in turns; whichever lane comes first in the file.
     */
    for (int first = 0; first < 2; first++) {
        Lanes raw;
        uint64_t from_0 = 0, from_1 = 0;
        for (int i = 0; i < 100; i++) {
            from_0 = raw.makes(0, 1);
            if (from_1 != 0) raw.frees(0, from_1);
            from_1 = raw.makes(1, 2);
            raw.frees(1, from_0);
        }
        raw.cut(static_cast<uint32_t>(first));
        Ordered ordered = raw.ordered();
        ASSERT_EQ(ordered.all.size(), 399u);
        std::map<uint32_t, uint64_t> live;
        for (const Instruction &one : ordered.all) {
            if (one.opcode == RawBuilder::kMalloc) {
                live[one.object] = one.size;
                continue;
            }
            ASSERT_EQ(live.count(one.object), 1u);
            EXPECT_EQ(live[one.object], one.lane == 0 ? 2u : 1u);
            live.erase(one.object);
        }
    }
}

TEST(Order, SequencesAscend)
{
    /* In the file the lane with the later numbers comes first. */
    Lanes raw;
    raw.enters(0, 3, 2, 2);
    raw.enters(0, 3, 4, 4);
    raw.cut(0);
    raw.enters(1, 3, 1, 1);
    raw.enters(1, 3, 3, 3);
    EXPECT_EQ(raw.ordered().text(), "1:malloc1 0:malloc2 1:malloc3 0:malloc4");
}

TEST(Order, ChunksWithoutUnits)
{
    Lanes raw;
    raw.chunk(1, 3, 1, raw.profile, 0, 0, 0);
    raw.makes(0, 10);
    raw.tick(10, 0, 0);
    raw.chunk(1, 0, 1, "", 0, 0, 0);
    Ordered ordered = order(raw.bytes);
    EXPECT_EQ(ordered.result.status, ORDER_TRACE_CUT) << ordered.error;
    EXPECT_EQ(ordered.text(), "0:malloc10 0:tick10");
}

TEST(Order, AFreeWaitsForItsTurn)
{
    Lanes raw;
    uint64_t a = raw.makes(0, 10);
    raw.frees(0, a);
    raw.sequence(0, 52, 3, 2);
    raw.makes(0, 11);
    raw.makes(1, 20);
    raw.enters(1, 3, 1, 21);
    EXPECT_EQ(raw.ordered().text(), "0:malloc10 1:malloc20 1:malloc21 0:free 0:malloc11");
}

TEST(Order, ACacheIsDeletedInItsTurn)
{
    Lanes raw;
    raw.thread_cache_deleted(0);
    raw.sequence(0, 52, 3, 3);
    raw.sequence(0, 52, 4, 1);
    raw.thread_end(0);
    raw.enters(1, 3, 1, 1);
    raw.enters(1, 3, 2, 2);
    raw.enters(1, 4, 2, 3);
    EXPECT_EQ(raw.ordered().text(),
              "1:malloc1 1:malloc2 0:thread_cache_deleted 0:thread_end 1:malloc3");
}

TEST(Order, ReallocBetweenItsSequences)
{
    /* The new place is number 1 of list 3, the old one goes back as number 2 of list 4. */
    Lanes raw;
    uint64_t a = raw.makes(0, 10);
    raw.sequence(0, 51, 3, 1);
    raw.realloc(0, RawBuilder::kReallocMoved, a, 20);
    raw.sequence(0, 52, 4, 2);
    raw.enters(1, 3, 2, 30);
    raw.makes(2, 40);
    raw.enters(2, 4, 1, 41);
    Ordered ordered = raw.ordered();
    EXPECT_EQ(ordered.text(), "0:malloc10 2:malloc40 2:malloc41 0:realloc_moved20 1:malloc30");
}

/* A free of another lane's object, at whose only number it is the turn, need not wait. If there is
 * another number, or if that one is the next call's, all of it does. */
TEST(Order, AFreeEntersOnlyAsAWhole)
{
    for (int record : {51, 52}) {
        Lanes raw;
        uint64_t x = raw.makes(1, 1);
        uint64_t y = raw.makes(1, 2);
        raw.cut(1);
        uint64_t a = raw.makes(0, 10);
        raw.frees(0, x);
        raw.frees(0, y);
        raw.sequence(0, record, 3, 1);
        if (record == 51) raw.realloc(0, RawBuilder::kReallocMoved, a, 20);
        raw.sequence(0, 52, 4, 2);
        if (record == 52) raw.realloc(0, RawBuilder::kReallocMoved, a, 20);
        raw.enters(2, 3, 2, 30);
        raw.makes(3, 40);
        raw.enters(3, 4, 1, 41);
        EXPECT_EQ(raw.ordered().text(),
                  record == 51 ? "1:malloc1 1:malloc2 0:malloc10 0:free 0:free 3:malloc40 "
                                 "3:malloc41 0:realloc_moved20 2:malloc30"
                               : "1:malloc1 1:malloc2 0:malloc10 0:free 3:malloc40 3:malloc41 "
                                 "0:free 0:realloc_moved20 2:malloc30");
    }
}

TEST(Order, AUnitWaitsForItsObjectBeforeItEnters)
{
    Lanes raw;
    raw.sequence(0, 51, 3, 2);
    raw.realloc(0, RawBuilder::kReallocMoved, RawBuilder::token(1, 2), 7);
    raw.cut(0);
    raw.enters(1, 3, 1, 1);
    raw.makes(1, 2);
    raw.enters(1, 3, 3, 3);
    EXPECT_EQ(raw.ordered().text(), "1:malloc1 1:malloc2 0:realloc_moved7 1:malloc3");
}

/* Two calls that each enter two structures, in an order in which neither can be whole before the
 * other: the allocator drops the lock of a list to take that of the page heap. */
TEST(Order, UnitsMayInterleaveWhereTheyDid)
{
    for (int record : {51, 52}) {
        Lanes raw;
        uint64_t a = raw.makes(0, 5);
        uint64_t b = raw.makes(1, 6);
        auto call = [&](uint32_t lane, uint64_t object, uint64_t list, uint64_t page_heap) {
            if (record == 52) raw.frees(lane, object);
            raw.sequence(lane, record, 3, list);
            raw.sequence(lane, record, 255, page_heap);
            if (record == 51) raw.makes(lane, 7);
        };
        call(0, a, 1, 2);
        call(1, b, 2, 1);
        raw.enters(1, 3, 3, 8);
        Ordered ordered = raw.ordered();
        EXPECT_EQ(ordered.all.size(), 5u);
        EXPECT_EQ(ordered.result.order.sequences, 5u);
        EXPECT_EQ(ordered.result.order.steps_split, 1u);
    }
}

/* --- windows --- */

TEST(Order, TicksStandBetweenTheirWindows)
{
    Lanes raw;
    raw.makes(0, 1);
    raw.makes(1, 2);
    raw.tick(10, 100, 200);
    raw.makes(0, 3);
    raw.tick(25, 101, 201);
    raw.tick(45, 102, 202);
    raw.makes(1, 4);
    raw.end();
    Ordered ordered = order(raw.bytes);
    EXPECT_EQ(ordered.text(), "0:malloc1 1:malloc2 1:tick10 0:malloc3 0:tick15 0:tick20 1:malloc4");
    EXPECT_EQ(ordered.all[2].operands, (std::vector<uint64_t>{10, 100, 200, 3}));
    EXPECT_EQ(ordered.result.order.windows, 4u);
    EXPECT_EQ(ordered.result.ticks, 3u);
}

TEST(Order, TheNextWindowIsLetInWhereThisOneNeedsIt)
{
    Lanes raw;
    raw.frees(0, RawBuilder::token(1, 1));
    raw.makes(0, 1);
    raw.makes(2, 2);
    raw.tick(10, 0, 0);
    raw.makes(1, 3);
    raw.tick(20, 0, 0);
    Ordered ordered = raw.ordered();
    EXPECT_EQ(ordered.text(), "2:malloc2 1:malloc3 0:free 0:malloc1 0:tick10 0:tick10");
    EXPECT_EQ(ordered.result.order.windows_overtaken, 1u);
}

/* A lane's turn is 512 records here; wherever it ends, a call is not parted from its sequence
 * numbers. */
TEST(Order, TurnsDoNotEndInsideUnits)
{
    for (int records = 500; records < 520; records++) {
        Lanes raw;
        for (int i = 0; i < records; i++)
            raw.makes(0, 1);
        raw.sequence(0, 51, 3, 1);
        raw.enters(0, 4, 1, 2);
        for (int i = 0; i < 600; i++)
            raw.makes(0, 1);
        raw.enters(1, 3, 2, 3);
        raw.end();
        std::string text = order(raw.bytes).text();
        EXPECT_LT(text.find("0:malloc2"), text.find("1:malloc3")) << records;
    }
}

/* Also of a lane that only frees what another one has made, at places that it knows. */
TEST(Order, FreesOfOtherLanesTakeTurns)
{
    constexpr uint32_t objects = 2000;
    Lanes raw;
    for (uint32_t before : {0u, objects}) {
        raw.tick(before, 0, 0);
        for (uint32_t place = 1; place <= objects; place++)
            raw.allocation_at(1, RawBuilder::kMalloc, 1, place, 0);
        raw.tick(before + 1, 0, 0);
        for (uint32_t place = 1; place <= objects; place++)
            raw.frees(0, RawBuilder::foreign(1, before + place, place));
    }
    for (uint32_t i = 0; i < objects; i++)
        raw.makes(2, 2);
    raw.end();
    std::string text = order(raw.bytes).text();
    EXPECT_LT(text.find("2:malloc2"), text.rfind("0:free"));
}

/* A thread that was in the middle of a call when the tick came. */
TEST(Order, UnitsThatATickCutsStayWhole)
{
    RawBuilder before;
    before.sequence(0, 51, 3, 1);
    before.allocation(1, RawBuilder::kMalloc, 1);
    before.sequence(1, 51, 3, 2);
    before.allocation(1, RawBuilder::kMalloc, 2);
    before.tick(10, 0, 0);
    before.allocation(0, RawBuilder::kMalloc, 3);
    before.tick(20, 0, 0);
    before.end();
    EXPECT_EQ(order(before.bytes).text(), "1:malloc1 0:malloc3 1:malloc2 1:tick10 1:tick10");

    RawBuilder after;
    uint64_t a = after.allocation(0, RawBuilder::kMalloc, 1);
    after.freeing(0, RawBuilder::kFree, a);
    after.sequence(1, 51, 3, 1);
    after.allocation(1, RawBuilder::kMalloc, 2);
    after.tick(10, 0, 0);
    after.sequence(0, 52, 3, 3);
    after.sequence(1, 51, 3, 2);
    after.allocation(1, RawBuilder::kMalloc, 3);
    after.end();
    EXPECT_EQ(order(after.bytes).text(), "0:malloc1 1:malloc2 1:tick10 1:malloc3 0:free");
}

/* Its first part waits until the window after its own, though the next window has another part. */
TEST(Order, UnitsThatTwoTicksCutAreNotWaitedForTwice)
{
    Lanes raw;
    raw.sequence(0, 51, 3, 1);
    raw.enters(1, 3, 2, 1);
    raw.tick(10, 0, 0);
    raw.sequence(0, 51, 4, 1);
    raw.tick(20, 0, 0);
    raw.makes(2, 2);
    raw.tick(30, 0, 0);
    raw.makes(0, 3);
    Ordered ordered = raw.ordered();
    size_t allocated = ordered.text().find("1:malloc1");
    size_t second_tick = ordered.text().find("tick", ordered.text().find("tick") + 1);
    EXPECT_LT(allocated, second_tick) << ordered.text();
}

TEST(Order, AThreadNeedNotGoOn)
{
    Lanes raw;
    uint64_t a = raw.makes(0, 1);
    raw.frees(0, a);
    raw.sequence(2, 51, 3, 1);
    for (uint64_t i = 1; i < 30; i++) {
        raw.makes(1, i + 1);
        raw.tick(i, 0, 0);
    }
    raw.makes(2, 100);
    Ordered ordered = raw.ordered();
    EXPECT_EQ(ordered.text().find("0:malloc1 1:malloc2 1:tick1 0:free 1:malloc3 1:tick1"), 0u)
        << ordered.text();
    EXPECT_EQ(ordered.result.totals.live, 30u);
}

TEST(Order, AAllocationThatNeverComesIsNotWaitedForAtTheEnd)
{
    Lanes raw;
    raw.makes(0, 1);
    raw.frees(0, RawBuilder::token(1, 1));
    raw.cut(0);
    for (uint64_t i = 1; i < 50; i++) {
        raw.makes(2, i);
        raw.tick(i, 0, 0);
    }
    raw.end();
    Ordered ordered = order(raw.bytes);
    EXPECT_EQ(ordered.result.status, ORDER_TRACE_COMPLETE) << ordered.error;
    EXPECT_EQ(ordered.result.order.unknown_objects, 1u);
    EXPECT_EQ(ordered.all[0].size, 1u);
    EXPECT_EQ(ordered.text().rfind("0:free?"), ordered.text().find("0:free?"));
}

TEST(Order, ANumberThatNeverComesIsDamageToo)
{
    Lanes raw;
    raw.enters(0, 255, 2, 1);
    raw.cut(0);
    for (uint64_t i = 1; i < 50; i++)
        raw.tick(i, 0, 0);
    raw.end();
    EXPECT_EQ(order(raw.bytes).error,
              "offset 0x40: a record waits for another one that never comes (FORMAT.md 6): lane "
              "0, record 0: waits for its turn, number 2 of structure 255, whose next number is 1");
}

/* --- places --- */

/* The sizes of the objects that end, in order; of unknown ones -1. */
std::vector<int64_t> ended_sizes(const Ordered &ordered)
{
    std::map<uint32_t, uint64_t> live;
    std::vector<int64_t> sizes;
    for (const Instruction &one : ordered.all) {
        unsigned number = one.opcode & INSTRUCTION_NUMBER_MASK;
        bool unknown = (one.opcode & INSTRUCTION_UNKNOWN) != 0;
        if (number >= CALL_KINDS || (one.opcode & INSTRUCTION_FAILED) != 0) continue;
        if (number == RawBuilder::kFree || number == RawBuilder::kReallocMoved ||
            number == RawBuilder::kReallocInPlace)
            sizes.push_back(unknown ? -1 : static_cast<int64_t>(live.at(one.object)));
        if (number == RawBuilder::kFree && !unknown) live.erase(one.object);
        if (number != RawBuilder::kFree) live[one.object] = one.size;
    }
    return sizes;
}

TEST(Order, APlaceGoesFromObjectToObject)
{
    /* Over a shared list, from cache to cache, and by a realloc. */
    Lanes raw;
    raw.allocation_at(0, RawBuilder::kMalloc, 1, 7, 0);
    raw.frees(0, RawBuilder::own(7));
    raw.sequence(0, 52, 3, 1);
    raw.cut(0);
    raw.sequence(1, 51, 3, 2);
    raw.allocation_at(1, RawBuilder::kMalloc, 2, 7, 0);
    raw.allocation_at(1, RawBuilder::kMalloc, 3, 9, 0);
    raw.frees(2, RawBuilder::foreign(1, 2, 7));
    raw.allocation_at(2, RawBuilder::kMalloc, 4, 7, 0);
    raw.realloc(0, RawBuilder::kReallocInPlace, RawBuilder::foreign(2, 1, 7), 5, 7);
    raw.realloc(1, RawBuilder::kReallocMoved, RawBuilder::foreign(0, 2, 7), 6, 8);
    raw.frees(1, RawBuilder::own(8));
    raw.frees(1, RawBuilder::own(9));
    Ordered ordered = raw.ordered();
    EXPECT_EQ(ended_sizes(ordered), (std::vector<int64_t>{1, 2, 4, 5, 6, 3}));
    EXPECT_EQ(ordered.result.order.displaced, 0u);
    EXPECT_EQ(ordered.result.totals.live, 0u);
}

TEST(Order, AllocationsTakeTheirPlacesFromTheCache)
{
    Lanes raw;
    raw.cache_begin(0);
    raw.size_class(0, 3, 32);
    raw.cached(0, 3, {64, 65, 66});
    raw.allocation_cached(0, RawBuilder::kMalloc, 20); /* at 64 */
    raw.allocation_cached(0, RawBuilder::kMalloc, 21); /* at 65 */
    raw.frees(0, RawBuilder::own(64));
    raw.allocation_cached(0, RawBuilder::kMalloc, 22); /* at 64 */
    raw.allocation_cached(0, RawBuilder::kMalloc, 23); /* at 66 */
    raw.makes(1, 1);
    for (uint32_t place : {66, 65, 64})
        raw.frees(1, RawBuilder::foreign(0, 4, place));
    Ordered ordered = raw.ordered();
    EXPECT_EQ(ended_sizes(ordered), (std::vector<int64_t>{20, 23, 21, 22}));
}

TEST(Order, AnEndWaitsForAllAllocationsThatItsBoundCounts)
{
    Lanes raw;
    raw.frees(0, RawBuilder::foreign(1, 3, 7));
    raw.cut(0);
    raw.allocation_at(1, RawBuilder::kMalloc, 1, 7, 0);
    raw.sequence(1, 51, 3, 2);
    raw.allocation_at(1, RawBuilder::kMalloc, 2, 8, 0);
    raw.allocation_at(1, RawBuilder::kMalloc, 3, 9, 0);
    raw.sequence(2, 51, 3, 1);
    raw.allocation_at(2, RawBuilder::kMalloc, 4, 10, 0);
    Ordered ordered = raw.ordered();
    EXPECT_EQ(ordered.text(), "1:malloc1 2:malloc4 1:malloc2 1:malloc3 0:free");
    EXPECT_EQ(ended_sizes(ordered), (std::vector<int64_t>{1}));
}

TEST(Order, ABoundBeyondTheEndIsUnknown)
{
    Lanes raw;
    raw.allocation_at(1, RawBuilder::kMalloc, 1, 7, 0);
    raw.frees(0, RawBuilder::foreign(1, 2, 7));
    raw.end();
    Ordered ordered = order(raw.bytes);
    EXPECT_EQ(ordered.result.status, ORDER_TRACE_COMPLETE) << ordered.error;
    EXPECT_EQ(ended_sizes(ordered), (std::vector<int64_t>{-1}));
    EXPECT_EQ(ordered.result.totals.live, 1u);
}

/* As pauses leave it: an end that was not recorded, and one that nothing puts before an allocation
 * of another thread. */
TEST(Order, WhoLivesWhereAnotherOneIsAllocatedStaysAlive)
{
    Lanes raw;
    raw.allocation_at(1, RawBuilder::kMalloc, 1, 7, 0);
    raw.allocation_at(1, RawBuilder::kMalloc, 2, 8, 0);
    raw.tick(10, 0, 0);
    raw.allocation_at(0, RawBuilder::kMalloc, 3, 7, 0);
    raw.allocation_at(0, RawBuilder::kMalloc, 4, 8, 0);
    raw.frees(0, RawBuilder::own(8));
    raw.sequence(0, 51, 3, 1);
    raw.allocation_at(0, RawBuilder::kMalloc, 5, 9, 0);
    raw.sequence(1, 51, 3, 2);
    raw.allocation_at(1, RawBuilder::kMalloc, 6, 10, 0);
    raw.frees(1, RawBuilder::own(7));
    raw.frees(2, RawBuilder::foreign(0, 3, 7));
    raw.frees(2, RawBuilder::unknown(8));
    raw.end();
    Ordered ordered = order(raw.bytes);
    EXPECT_EQ(ordered.result.status, ORDER_TRACE_COMPLETE) << ordered.error;
    std::vector<int64_t> ended = ended_sizes(ordered);
    std::sort(ended.begin(), ended.end());
    EXPECT_EQ(ended, (std::vector<int64_t>{-1, 1, 3, 4}));
    EXPECT_EQ(ordered.result.order.displaced, 2u);
    EXPECT_EQ(ordered.result.totals.live, 3u);
}

TEST(Order, AFailedReallocLeavesTheNextObjectAtItsPlaceAlone)
{
    Lanes raw;
    uint64_t a = raw.makes(0, 4);
    raw.frees(0, a);
    raw.allocation_at(0, RawBuilder::kMalloc, 5, raw.place(a), 0);
    raw.failed(1, RawBuilder::kReallocMoved, 1 << 20, 0, a);
    raw.end();
    Ordered ordered = order(raw.bytes);
    EXPECT_EQ(ordered.result.status, ORDER_TRACE_COMPLETE) << ordered.error;
    EXPECT_EQ(ordered.text(), "0:malloc4 0:free 0:malloc5 1:realloc_moved1048576!?");
}

/* Nor an older one that its lane had there, the end of which was not recorded (in a pause). */
TEST(Order, AFailedReallocLeavesTheObjectBeforeAtItsPlaceAlone)
{
    Lanes raw;
    raw.allocation_at(0, RawBuilder::kMalloc, 4, 7, 0);
    raw.allocation_at(0, RawBuilder::kMalloc, 5, 7, 0);
    raw.frees(0, RawBuilder::own(7));
    raw.failed(1, RawBuilder::kReallocMoved, 1 << 20, 0, RawBuilder::foreign(0, 2, 7));
    raw.failed(1, RawBuilder::kReallocMoved, 1 << 20, 0, RawBuilder::foreign(0, 1, 7));
    raw.end();
    Ordered ordered = order(raw.bytes);
    EXPECT_EQ(ordered.result.status, ORDER_TRACE_COMPLETE) << ordered.error;
    EXPECT_EQ(ordered.text(), "0:malloc4 0:malloc5 0:free 1:realloc_moved1048576!? "
                              "1:realloc_moved1048576!");
}

/* --- objects that the program frees twice --- */

TEST(Order, FreedTwice)
{
    Lanes raw;
    uint64_t a = raw.makes(0, 1);
    raw.frees(0, a);
    raw.freeing(0, RawBuilder::kDeleteSized, a, 7);
    raw.makes(0, 2);
    raw.frees(0, a);
    raw.end();
    Ordered ordered = order(raw.bytes);
    EXPECT_EQ(ordered.result.status, ORDER_TRACE_COMPLETE) << ordered.error;
    EXPECT_EQ(ordered.text(), "0:malloc1 0:free 0:freed_twice 0:delete_sized7? 0:malloc2 "
                              "0:freed_twice 0:free?");
    EXPECT_EQ(ordered.result.totals.freed_twice, 2u);
    EXPECT_EQ(ordered.result.order.first_freed_twice, 2u);
    EXPECT_EQ(ordered.result.order.unknown_objects, 0u);
    EXPECT_EQ(ordered.result.totals.live, 1u);
}

/* By the thread that had not freed it before, and one of a lane that never had an object there. */
TEST(Order, FreedTwiceByAnotherThread)
{
    Lanes raw;
    uint64_t a = raw.makes(0, 1);
    raw.frees(0, a);
    raw.sequence(0, 52, 3, 1);
    raw.enters(1, 3, 2, 2);
    raw.frees(1, a);
    raw.frees(1, RawBuilder::foreign(0, 1, 77));
    raw.end();
    Ordered ordered = order(raw.bytes);
    EXPECT_EQ(ordered.result.status, ORDER_TRACE_COMPLETE) << ordered.error;
    EXPECT_EQ(ordered.text(), "0:malloc1 0:free 1:malloc2 1:freed_twice 1:free? "
                              "1:freed_twice 1:free?");
    EXPECT_EQ(ordered.result.order.first_freed_twice, 4u) << "lanes are instructions, too";
    EXPECT_EQ(ordered.result.totals.live, 1u);
}

/* Meanwhile its lane has made another object there, which the record does not mean. */
TEST(Order, FreedTwiceWhereAnotherObjectLives)
{
    Lanes raw;
    uint64_t x = raw.makes(1, 1);
    uint64_t y = raw.makes(1, 2);
    raw.cut(1);
    uint64_t a = raw.makes(0, 3);
    raw.frees(0, x);
    raw.frees(0, RawBuilder::foreign(1, 1, raw.place(y)));
    raw.frees(0, a);
    for (uint64_t size : {4, 5, 6})
        raw.makes(0, size);
    raw.end();
    Ordered ordered = order(raw.bytes);
    EXPECT_EQ(ordered.text(), "1:malloc1 1:malloc2 0:malloc3 0:free 0:freed_twice 0:free? 0:free "
                              "0:malloc4 0:malloc5 0:malloc6");
    EXPECT_EQ(ordered.result.totals.live, 4u);
}

TEST(Order, ReallocOfAFreedObjectBringsAnother)
{
    Lanes raw;
    uint64_t a = raw.makes(0, 1);
    raw.frees(0, a);
    uint64_t b = raw.realloc(0, RawBuilder::kReallocMoved, a, 50);
    raw.frees(0, b);
    raw.end();
    Ordered ordered = order(raw.bytes);
    EXPECT_EQ(ordered.result.status, ORDER_TRACE_COMPLETE) << ordered.error;
    EXPECT_EQ(ordered.text(), "0:malloc1 0:free 0:freed_twice 0:realloc_moved50? 0:free");
    EXPECT_EQ(ordered.result.totals.live, 0u);
}

/* The allocator gives the place twice: these are two objects, and each is freed. */
TEST(Order, APlaceThatWasFreedTwiceHasTwoObjects)
{
    for (bool foreign : {false, true}) {
        Lanes raw;
        raw.cache_begin(0);
        raw.size_class(0, 1, 16);
        raw.cached(0, 1, {64});
        raw.allocation_cached(0, RawBuilder::kMalloc, 1);
        raw.frees(0, RawBuilder::own(64));
        raw.frees(0, RawBuilder::own(64));
        raw.allocation_cached(0, RawBuilder::kMalloc, 2);
        raw.allocation_cached(0, RawBuilder::kMalloc, 3);
        raw.size_class(1, 1, 16);
        for (int i = 0; i < 2; i++)
            raw.freeing(foreign, RawBuilder::kFree,
                        foreign ? RawBuilder::foreign(0, 3, 64, 1) : RawBuilder::own(64));
        raw.end();
        Ordered ordered = order(raw.bytes);
        EXPECT_EQ(ordered.result.status, ORDER_TRACE_COMPLETE) << ordered.error;
        EXPECT_EQ(ordered.result.totals.freed_twice, 1u);
        EXPECT_EQ(ordered.result.order.unknown_objects, 0u);
        EXPECT_EQ(ordered.result.totals.live, 0u);
        EXPECT_EQ(ended_sizes(ordered), (std::vector<int64_t>{1, -1, 3, 2}));
    }
}

/* Then the lists of the cache are no stacks any more; where nothing was freed twice that is damage.
 */
TEST(Order, AListThatRunsDry)
{
    for (bool twice : {true, false}) {
        Lanes raw;
        raw.cache_begin(0);
        raw.size_class(0, 1, 16);
        raw.cached(0, 1, {64});
        raw.allocation_cached(0, RawBuilder::kMalloc, 1);
        raw.frees(0, RawBuilder::own(64));
        if (twice) raw.frees(0, RawBuilder::own(64));
        for (uint64_t i = 0; i < 4; i++)
            raw.allocation_cached(0, RawBuilder::kMalloc, 2);
        for (uint64_t i = 0; i < 4; i++)
            raw.frees(0, RawBuilder::own(64));
        raw.end();
        Ordered ordered = order(raw.bytes);
        EXPECT_EQ(ordered.result.status, twice ? ORDER_TRACE_COMPLETE : ORDER_TRACE_DAMAGED);
        EXPECT_EQ(ordered.result.totals.freed_twice, twice ? 1u : 0u);
        EXPECT_EQ(ordered.result.order.unknown_objects, twice ? 2u : 3u);
        EXPECT_EQ(ordered.result.totals.live, twice ? 2u : 3u);
        if (!twice) {
            EXPECT_NE(ordered.error.find("the cache is empty"), std::string::npos) << ordered.error;
        }
    }
}

/* --- frees that a recorder missed that was attached --- */

TEST(Order, AMissedFreeEndsWhoLivesWhereAnotherOneIsAllocated)
{
    for (bool attached : {true, false}) {
        Lanes raw(0, attached ? "program=p\nattached=1\n" : "program=p\nattached=0\n");
        raw.allocation_at(0, RawBuilder::kMalloc, 1, 7, 0);
        raw.allocation_at(1, RawBuilder::kMalloc, 2, 8, 0);
        raw.tick(10, 0, 0);
        raw.allocation_at(1, RawBuilder::kMalloc, 3, 7, 0);
        raw.realloc(1, RawBuilder::kReallocMoved, RawBuilder::own(7), 4, 8);
        raw.frees(1, RawBuilder::own(8));
        raw.frees(1, RawBuilder::foreign(0, 1, 7));
        raw.end();
        Ordered ordered = order(raw.bytes);
        EXPECT_EQ(ordered.result.status, ORDER_TRACE_COMPLETE) << ordered.error;
        EXPECT_EQ(ordered.text(),
                  attached
                      ? "0:malloc1 1:malloc2 1:tick10 1:free_missed 1:free 1:malloc3 1:free_missed "
                        "1:free 1:realloc_moved4 1:free 1:freed_twice 1:free?"
                      : "0:malloc1 1:malloc2 1:tick10 1:malloc3 1:realloc_moved4 1:free 1:free");
        EXPECT_EQ(ordered.result.totals.missed_frees, attached ? 2u : 0u);
        EXPECT_EQ(ordered.result.order.displaced, attached ? 0u : 2u);
        EXPECT_EQ(ordered.result.totals.live, attached ? 0u : 1u);
    }
}

/* Among calls of which nothing else is special. */
TEST(Order, AMissedFreeOfAPlaceFromTheCache)
{
    Lanes raw(0, "attached=1\n");
    raw.cache_begin(0);
    raw.size_class(0, 1, 16);
    raw.cached(0, 1, {64, 64, 65, 66});
    for (uint64_t size : {1, 2, 3, 4})
        raw.allocation_cached(0, RawBuilder::kMalloc, size);
    for (uint32_t place : {64, 65, 66})
        raw.frees(0, RawBuilder::own(place));
    for (uint64_t size : {5, 6, 7})
        raw.allocation_cached(0, RawBuilder::kMalloc, size);
    raw.end();
    Ordered ordered = order(raw.bytes);
    EXPECT_EQ(ordered.result.status, ORDER_TRACE_COMPLETE) << ordered.error;
    EXPECT_EQ(ordered.result.totals.missed_frees, 1u);
    EXPECT_EQ(ordered.result.totals.calls, 11u);
    EXPECT_EQ(ordered.result.totals.live, 3u);
}

/* --- what may be missing --- */

TEST(Order, ObjectsUnknownFromTheStart)
{
    Lanes raw;
    raw.frees(0, 0);
    uint64_t a = raw.realloc(0, RawBuilder::kReallocMoved, 0, 50);
    raw.failed(0, RawBuilder::kReallocMoved, 60, 0, 0);
    raw.frees(0, a);
    raw.end();
    Ordered ordered = order(raw.bytes);
    EXPECT_EQ(ordered.result.status, ORDER_TRACE_COMPLETE) << ordered.error;
    EXPECT_EQ(ordered.text(), "0:free? 0:realloc_moved50? 0:realloc_moved60!? 0:free");
    EXPECT_EQ(ordered.result.order.unknown_objects, 3u);
    EXPECT_EQ(ordered.result.totals.live, 0u);
}

TEST(Order, AtTheEndAllocationsAndNumbersMayBeMissing)
{
    Lanes raw;
    raw.tick(10, 0, 0);
    raw.makes(1, 1);
    raw.enters(1, 4, 7, 2);
    raw.frees(0, RawBuilder::token(1, 3));
    raw.sequence(0, 52, 4, 5);
    raw.frees(0, RawBuilder::token(9, 1));
    raw.end();
    Ordered ordered = order(raw.bytes);
    EXPECT_EQ(ordered.result.status, ORDER_TRACE_COMPLETE) << ordered.error;
    EXPECT_EQ(ordered.text(), "0:tick10 1:malloc1 0:free? 0:free? 1:malloc2");
    EXPECT_EQ(ordered.result.order.sequences_missing, 5u);
    EXPECT_EQ(ordered.result.order.unknown_objects, 2u);
}

TEST(Order, LostEvents)
{
    Lanes raw;
    uint64_t a = raw.makes(0, 1);
    raw.lost(0, 1000, 500);
    uint64_t b = raw.makes(0, 2);
    raw.tick(10, 0, 0);
    raw.makes(1, 3);
    raw.frees(1, RawBuilder::token(0, 300));
    raw.frees(1, RawBuilder::token(0, 501));
    raw.frees(1, a);
    raw.frees(1, b);
    raw.frees(1, RawBuilder::token(1, 1));
    raw.tick(20, 0, 0);
    raw.end();
    EXPECT_EQ(RawBuilder::token(0, 502), b);
    Ordered ordered = order(raw.bytes);
    EXPECT_EQ(ordered.error, "");
    EXPECT_EQ(ordered.result.status, ORDER_TRACE_CUT);
    EXPECT_EQ(ordered.text(),
              "0:malloc1 0:lost 0:malloc2 0:tick10 1:malloc3 1:free? 1:free? 1:free "
              "1:free 1:tick10 1:free");
    EXPECT_EQ(ordered.result.order.lost_events, 1000u);
    EXPECT_EQ(ordered.result.totals.live, 0u);
    EXPECT_EQ(ordered.end_status, INSTRUCTION_STATUS_CUT);
}

TEST(Order, ManyLostAllocations)
{
    for (uint64_t allocations : {1, 1022, 1023, 1024, 5000, 3000000}) {
        Lanes raw;
        uint64_t a = raw.makes(0, 1);
        raw.lost(0, allocations, allocations);
        uint64_t b = raw.makes(0, 2);
        raw.lost(0, allocations, allocations);
        raw.lost(0, 1, 1);
        uint64_t c = raw.makes(0, 3);
        raw.frees(0, b - 1);
        raw.frees(0, c - 1);
        for (uint64_t object : {a, b, c})
            raw.frees(0, object);
        raw.end();
        Ordered ordered = order(raw.bytes);
        EXPECT_EQ(ordered.text(), "0:malloc1 0:lost 0:malloc2 0:lost 0:lost 0:malloc3 0:free? "
                                  "0:free? 0:free 0:free 0:free");
        EXPECT_EQ(ordered.result.totals.live, 0u);
    }
}

/* Allocations beyond the last number that a bound can have are refused, also where calls are taken
 * without records. */
TEST(Order, TooManyAllocations)
{
    Lanes raw;
    raw.lost(0, 1, RAW_SERIAL_MAX - 3);
    raw.size_class(0, 3, 24);
    raw.cache_begin(0);
    raw.cached(0, 3, {64, 65, 66, 67, 68, 69, 70, 71, 72, 73});
    for (int i = 0; i < 10; i++)
        raw.allocation_cached(0, RawBuilder::kMalloc, 24);
    raw.end();
    Ordered ordered = order(raw.bytes);
    EXPECT_EQ(ordered.result.status, ORDER_TRACE_DAMAGED);
    EXPECT_EQ(ordered.text(), "0:lost 0:malloc24 0:malloc24 0:malloc24");
    EXPECT_NE(ordered.error.find("more allocations than a bound can count"), std::string::npos)
        << ordered.error;
}

TEST(Order, CutStreams)
{
    Lanes raw;
    raw.makes(0, 1);
    raw.tick(10, 0, 0);
    raw.makes(0, 2);
    raw.cut(0);
    std::string bytes = raw.bytes;
    raw.end();
    Ordered ordered = order(raw.bytes.substr(0, raw.bytes.size() - 5));
    EXPECT_EQ(ordered.result.status, ORDER_TRACE_CUT);
    EXPECT_TRUE(ordered.result.truncated);
    EXPECT_EQ(ordered.text(), "0:malloc1 0:tick10 0:malloc2");
    EXPECT_EQ(ordered.end_status, INSTRUCTION_STATUS_CUT);
    ordered = order(bytes);
    EXPECT_EQ(ordered.result.status, ORDER_TRACE_CUT);
    EXPECT_STREQ(ordered.result.cut.kind->name, "raw_cut_no_end");
    EXPECT_EQ(ordered.result.cut.offset, bytes.size());
}

TEST(Order, AnErrorEndedTheRecording)
{
    Lanes raw;
    raw.makes(0, 1);
    raw.end(2);
    EXPECT_EQ(order(raw.bytes).result.status, ORDER_TRACE_CUT);
    RawBuilder limit;
    limit.end(1);
    EXPECT_EQ(order(limit.bytes).result.status, ORDER_TRACE_COMPLETE);
}

TEST(Order, TheSpoolHasTheRest)
{
    Lanes raw;
    raw.makes(0, 1);
    raw.tick(10, 0, 0);
    raw.makes(0, 2);
    raw.cut(0);
    std::string bytes = raw.bytes;
    SpoolBuilder spool;
    raw.makes(0, 3);
    raw.frees(0, RawBuilder::token(0, 1));
    spool.slot(0, 0, raw.segment(0));
    raw.frees(1, RawBuilder::token(0, 3));
    raw.sequence_before(1, 3);
    raw.makes(1, 4);
    spool.slot(1, 0, raw.segment(1));
    Ordered ordered = order(bytes, &spool.bytes);
    EXPECT_EQ(ordered.result.status, ORDER_TRACE_CUT) << ordered.error;
    EXPECT_EQ(ordered.result.spool, ORDER_TRACE_SPOOL_USED);
    EXPECT_EQ(ordered.result.spool_records, 5u);
    EXPECT_EQ(ordered.text(), "0:malloc1 0:tick10 0:malloc2 0:malloc3 0:free 1:free 1:malloc4");
    EXPECT_EQ(ordered.result.totals.live, 2u);

    SpoolBuilder other(4096, "another one's id");
    EXPECT_EQ(order(bytes, &other.bytes).result.spool, ORDER_TRACE_SPOOL_OTHER);
    raw.end();
    EXPECT_EQ(order(raw.bytes, &spool.bytes).result.spool, ORDER_TRACE_SPOOL_NONE)
        << "it is complete";
}

TEST(Order, NothingButASpool)
{
    Lanes raw(1);
    raw.allocation(0, RawBuilder::kMalloc, 1, 0, 0x7f0000001000);
    SpoolBuilder spool(4096, "0123456789abcdef", 1);
    spool.slot(0, 0, raw.segment(0));
    Ordered ordered = order("", &spool.bytes);
    EXPECT_EQ(ordered.text(), "0:malloc1");
    EXPECT_EQ(ordered.addresses, (std::vector<uint64_t>{0x7f0000001000}));
    EXPECT_EQ(ordered.metadata.find("run=3031"), 0u);
    EXPECT_EQ(order("").result.status, ORDER_TRACE_DAMAGED);
}

/* --- damage --- */

TEST(Order, ANumberIsGivenOnce)
{
    Lanes raw;
    raw.enters(0, 3, 1, 1);
    raw.enters(1, 3, 1, 1);
    raw.end();
    EXPECT_NE(order(raw.bytes).error.find("this sequence number has occurred before (FORMAT.md 3): "
                                          "lane 1, record 0: number 1 of structure 3"),
              std::string::npos);
}

TEST(Order, TotalsMustAgree)
{
    Lanes raw;
    raw.makes(0, 1);
    raw.cut(0);
    RawBuilder other;
    for (int i = 0; i < 4; i++)
        other.thread_end(0); /* as many units */
    other.end();
    std::string end = other.bytes.substr(other.bytes.rfind("MTRC"));
    EXPECT_NE(order(raw.bytes + end).error.find("0 events, read 1"), std::string::npos);
}

TEST(Order, WhatComesBeforeDamageIsDelivered)
{
    Lanes raw;
    raw.makes(0, 1);
    raw.tick(10, 0, 0);
    raw.makes(0, 2);
    raw.cut(0);
    raw.chunk(1, 0, 0, "", 1, 2, 0);
    Ordered ordered = order(raw.bytes);
    EXPECT_EQ(ordered.result.status, ORDER_TRACE_DAMAGED);
    EXPECT_EQ(ordered.text(), "0:malloc1 0:tick10 0:malloc2");
    EXPECT_EQ(ordered.end_status, INSTRUCTION_STATUS_DAMAGED);
}

TEST(Order, AddressesArePassedOn)
{
    Lanes raw(1);
    uint64_t a = raw.allocation(0, RawBuilder::kMalloc, 8, 0, 0x7f0000000010);
    raw.realloc(0, RawBuilder::kReallocMoved, a, 9, 0x7f0000000100);
    Ordered ordered = raw.ordered();
    EXPECT_EQ(ordered.addresses, (std::vector<uint64_t>{0x7f0000000010, 0x7f0000000100}));
}

/* --- records of several lanes shuffled, as far as the four rules allow --- */

/* Threads that are interrupted between any two records, also in the middle of a call. Nothing but
 * the rules of FORMAT.md 6 holds: an object may be used by others before the sequence numbers of
 * the realloc that made it have been taken, and by a call whose first sequence numbers were taken
 * before its allocation. */
class Shuffled {
  public:
    struct Record {
        bool is_sequence;
        uint32_t structure;
        uint64_t number; /* of the sequence number; else the token that ends */
        uint64_t begins;
        uint64_t size;
    };
    Lanes raw;
    std::vector<std::vector<Record>> lanes;

    Shuffled(uint64_t seed, uint32_t lane_count, uint32_t structures, int records)
        : lanes(lane_count), structures_(structures), random_(seed * 2654435761u + 1),
          calls_(lane_count)
    {
        for (int i = 0; i < records; i++) {
            step(random(lane_count));
            if (random(40) == 0) raw.cut(random(lane_count));
            if (random(300) == 0) raw.tick(static_cast<uint64_t>(i), 0, 0, random(2) == 0);
        }
        for (uint32_t lane = 0; lane < lane_count; lane++)
            while (calls_[lane].left != 0)
                step(lane);
        raw.end();
    }

  private:
    struct Call {
        uint32_t before = 0, after = 0, left = 0; /* left: records to come */
        int kind = 0;
    };
    uint32_t structures_;
    uint64_t random_;
    std::vector<Call> calls_;
    std::vector<uint64_t> objects_;

    uint32_t random(uint32_t below)
    {
        random_ ^= random_ << 13;
        random_ ^= random_ >> 7;
        random_ ^= random_ << 17;
        return static_cast<uint32_t>((random_ >> 20) % below);
    }

    void begin(Call &call)
    {
        static const int kinds[] = {RawBuilder::kMalloc, RawBuilder::kFree,
                                    RawBuilder::kReallocMoved};
        call.kind = kinds[random(3)];
        call.before = call.kind == RawBuilder::kFree ? random(2) : random(4);
        call.after = call.kind == RawBuilder::kMalloc ? random(2) : random(4);
        call.left = call.before + 1 + call.after;
    }

    void sequence(uint32_t lane, bool before)
    {
        uint32_t structure = random(structures_);
        before ? raw.sequence_before(lane, structure) : raw.sequence_after(lane, structure);
        lanes[lane].push_back({true, structure, raw.next_sequence[structure], 0, 0});
    }

    void make_call(uint32_t lane, int kind)
    {
        uint64_t size = 1 + random(1000), ends = 0, begins = 0;
        if (kind != RawBuilder::kMalloc && !objects_.empty()) {
            std::swap(objects_[random(static_cast<uint32_t>(objects_.size()))], objects_.back());
            ends = objects_.back();
            objects_.pop_back();
        }
        switch (kind) {
        case RawBuilder::kMalloc: begins = raw.allocation(lane, kind, size); break;
        case RawBuilder::kFree: raw.freeing(lane, kind, ends); break;
        default: begins = raw.realloc(lane, kind, ends, size); break;
        }
        if (begins != 0) objects_.push_back(begins);
        lanes[lane].push_back({false, 0, ends, begins, kind == RawBuilder::kFree ? 0 : size});
    }

    void step(uint32_t lane)
    {
        Call &call = calls_[lane];
        if (call.left == 0) begin(call);
        if (call.left > call.after + 1)
            sequence(lane, true);
        else if (call.left == call.after + 1)
            make_call(lane, call.kind);
        else
            sequence(lane, false);
        call.left--;
    }
};

/* Puts the sequence numbers back between the calls of their lanes: each as early as its turn
 * comes. */
class Checker {
  public:
    explicit Checker(const Shuffled &program) : program_(program), at_(program.lanes.size()) {}

    void check(const Ordered &ordered)
    {
        for (const Instruction &one : ordered.all) {
            if ((one.opcode & INSTRUCTION_NUMBER_MASK) >= CALL_KINDS) continue;
            ASSERT_LT(one.lane, at_.size());
            enter();
            const auto &lane = program_.lanes[one.lane];
            ASSERT_LT(at_[one.lane], lane.size());
            const Shuffled::Record &record = lane[at_[one.lane]++];
            ASSERT_FALSE(record.is_sequence)
                << "before number " << record.number << " of " << record.structure;
            ASSERT_EQ(one.size, record.size);
            if (record.number != 0) {
                ASSERT_EQ(tokens_[one.object], record.number);
                tokens_.erase(one.object);
            }
            if (record.begins != 0) {
                ASSERT_EQ(tokens_.count(one.object), 0u);
                tokens_[one.object] = record.begins;
            }
        }
        enter();
        for (size_t lane = 0; lane < at_.size(); lane++)
            EXPECT_EQ(at_[lane], program_.lanes[lane].size()) << "lane " << lane;
    }

  private:
    const Shuffled &program_;
    std::vector<size_t> at_;
    std::map<uint32_t, uint64_t> entered_;
    std::map<uint32_t, uint64_t> tokens_; /* by register */

    bool enter_one(size_t lane)
    {
        if (at_[lane] == program_.lanes[lane].size()) return false;
        const Shuffled::Record &record = program_.lanes[lane][at_[lane]];
        if (!record.is_sequence || record.number != entered_[record.structure] + 1) return false;
        entered_[record.structure]++;
        at_[lane]++;
        return true;
    }

    void enter()
    {
        for (bool more = true; more;) {
            more = false;
            for (size_t lane = 0; lane < at_.size(); lane++)
                while (enter_one(lane))
                    more = true;
        }
    }
};

TEST(Order, AnyShuffleThatObeysTheRulesIsOrdered)
{
    uint64_t relaxed = 0, stepped = 0;
    for (uint64_t seed = 1; seed <= 150; seed++) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        uint32_t structures = 1 + static_cast<uint32_t>(seed % 5);
        Shuffled program(seed, 2 + static_cast<uint32_t>(seed % 11), structures, 1500);
        Ordered ordered = order(program.raw.bytes);
        ASSERT_EQ(ordered.error, "");
        ASSERT_EQ(ordered.result.status, ORDER_TRACE_COMPLETE);
        EXPECT_EQ(ordered.result.order.sequences_missing, 0u);
        Checker(program).check(ordered);
        if (HasFatalFailure()) return;
        relaxed += ordered.result.order.steps_relaxed;
        stepped += ordered.result.order.steps_split;
    }
    EXPECT_GT(relaxed, 0u);
    EXPECT_GT(stepped, 0u);
}

TEST(Order, CallsThatCrossEachOther)
{
    /* Each has entered one structure before and one after the other. */
    RawBuilder before;
    before.sequence(0, 51, 3, 1);
    before.sequence(0, 51, 255, 2);
    before.allocation(0, RawBuilder::kMalloc, 1);
    before.sequence(1, 51, 255, 1);
    before.sequence(1, 51, 3, 2);
    before.allocation(1, RawBuilder::kMalloc, 2);
    before.end();
    Ordered ordered = order(before.bytes);
    EXPECT_EQ(ordered.result.status, ORDER_TRACE_COMPLETE) << ordered.error;
    EXPECT_EQ(ordered.result.totals.calls, 2u);
    EXPECT_EQ(ordered.result.order.steps_split, 1u);

    /* A realloc whose release comes after that of a third lane's object, and its allocation before.
     */
    RawBuilder around;
    uint64_t a = around.allocation(2, RawBuilder::kMalloc, 1);
    uint64_t b = around.allocation(2, RawBuilder::kMalloc, 2);
    around.sequence(0, 51, 3, 1);
    around.realloc(0, RawBuilder::kReallocMoved, a, 3);
    around.sequence(0, 52, 4, 2);
    around.freeing(1, RawBuilder::kFree, b);
    around.sequence(1, 52, 4, 1);
    around.sequence(1, 52, 3, 2);
    around.end();
    ordered = order(around.bytes);
    EXPECT_EQ(ordered.text(), "2:malloc1 2:malloc2 1:free 0:realloc_moved3");
    EXPECT_EQ(ordered.result.order.sequences, 4u);
}

TEST(Order, ASequenceMayPrecedeTheAllocationThatItsCallNeeds)
{
    Lanes raw;
    raw.sequence(0, 51, 255, 1);
    raw.realloc(0, RawBuilder::kReallocMoved, RawBuilder::token(1, 1), 5);
    raw.enters(1, 255, 2, 4);
    Ordered ordered = raw.ordered();
    EXPECT_EQ(ordered.text(), "1:malloc4 0:realloc_moved5");
    EXPECT_EQ(ordered.result.order.steps_relaxed, 1u);
}

TEST(Order, AnObjectMayBeUsedBeforeTheSequencesOfItsReallocAreTaken)
{
    Lanes raw;
    raw.realloc(0, RawBuilder::kReallocMoved, raw.makes(0, 4), 5);
    raw.sequence(0, 52, 255, 2);
    raw.frees(1, RawBuilder::token(0, 2));
    raw.sequence(1, 52, 255, 1);
    Ordered ordered = raw.ordered();
    EXPECT_EQ(ordered.text(), "0:malloc4 0:realloc_moved5 1:free");
}

TEST(Order, AThreadMayBeAwayForManyWindows)
{
    /* It has taken a number, and has not got to record it while others took a hundred more. */
    Lanes raw;
    for (uint64_t i = 2; i <= 100; i++) {
        raw.enters(1, 255, i, i);
        raw.makes(2, 1000 + i);
        raw.tick(i, 0, 0);
    }
    raw.enters(0, 255, 1, 1);
    raw.tick(101, 0, 0);
    Ordered ordered = raw.ordered();
    EXPECT_EQ(ordered.result.status, ORDER_TRACE_COMPLETE);
    EXPECT_EQ(ordered.result.order.sequences, 100u);
    EXPECT_EQ(ordered.result.order.steps_relaxed, 0u);
    std::string text = ordered.text();
    EXPECT_LT(text.find("0:malloc1 "), text.find("1:malloc2 "));
    EXPECT_EQ(text.rfind(" 1:malloc100"), text.find(" 1:malloc100"));
}

TEST(Order, AReallocThatFailedMayComeAfterTheEndOfItsObject)
{
    /* It was before; nothing recorded says so. */
    Lanes raw;
    uint64_t a = raw.makes(0, 4);
    raw.frees(0, a);
    raw.failed(1, RawBuilder::kReallocMoved, 1 << 20, 0, a);
    raw.end();
    Ordered ordered = order(raw.bytes);
    EXPECT_EQ(ordered.result.status, ORDER_TRACE_COMPLETE) << ordered.error;
    EXPECT_EQ(ordered.text(), "0:malloc4 0:free 1:realloc_moved1048576!?");
}

/* Changes bytes of chunk payloads and makes the checksums right again: what a writer with a mistake
 * could write. */
std::string with_wrong_records(std::string bytes, uint64_t *random, int changes)
{
    auto next = [random](uint64_t below) {
        *random ^= *random << 13;
        *random ^= *random >> 7;
        *random ^= *random << 17;
        return (*random >> 16) % below;
    };
    std::vector<std::pair<size_t, size_t>> chunks;
    for (size_t at = 64; at + 36 <= bytes.size();) {
        uint32_t payload;
        memcpy(&payload, &bytes[at + 8], 4);
        chunks.emplace_back(at, payload);
        at += 36 + payload;
    }
    for (; changes > 0; changes--) {
        auto [at, payload] = chunks[next(chunks.size())];
        if (payload == 0) continue;
        bytes[at + 36 + next(payload)] = static_cast<char>(next(256));
        std::string checksum;
        bytes::put(checksum, bytes::checksum(bytes.substr(at, 32) + bytes.substr(at + 36, payload)),
                   4);
        bytes.replace(at + 32, 4, checksum);
    }
    return bytes;
}

TEST(Order, WrongRecordsDoNoHarm)
{
    RawSimulator::Options options;
    options.lanes = 6;
    options.steps = 1000;
    options.tick_every = 100;
    options.classes = 4;
    options.batch = 2;
    options.share_every = 2;
    RawSimulator simulator(options);
    simulator.raw.end();
    uint64_t random = 88172645463325252u;
    const int rounds = test_size(300, 1000);
    int damaged = 0;
    for (int round = 0; round < rounds; round++) {
        Ordered ordered = order(with_wrong_records(simulator.raw.bytes, &random, 1 + round % 3));
        EXPECT_EQ(ordered.state, INSTRUCTIONS_END);
        EXPECT_EQ(ordered.error.empty(), ordered.result.status != ORDER_TRACE_DAMAGED);
        damaged += ordered.result.status == ORDER_TRACE_DAMAGED;
    }
    EXPECT_GT(damaged, rounds * 7 / 10);
}

/* --- salvage --- */

TEST(Order, WhatCannotBeOrderedIsLeftOutOnRequest)
{
    Lanes raw;
    uint64_t a = raw.makes(0, 1);
    raw.frees(0, a);
    raw.enters(0, 3, 1, 2);
    raw.sequence(1, 51, 3, 1); /* twice */
    raw.makes(1, 3);
    for (uint64_t i = 1; i < 20; i++)
        raw.tick(i, 0, 0);
    raw.enters(0, 255, 2, 4);
    for (uint64_t i = 20; i < 40; i++)
        raw.tick(i, 0, 0);
    raw.sequence(1, 51, 255, 3); /* 1 was never there, far from the end */
    raw.makes(1, 5);
    raw.end();
    order_options how = {};
    EXPECT_EQ(order(raw.bytes, nullptr, how).result.status, ORDER_TRACE_DAMAGED);
    how.salvage = true;
    Ordered ordered = order(raw.bytes, nullptr, how);
    EXPECT_EQ(ordered.result.status, ORDER_TRACE_SALVAGED);
    EXPECT_EQ(ordered.end_status, INSTRUCTION_STATUS_DAMAGED);
    EXPECT_EQ(ordered.result.order.damages, 2u);
    EXPECT_EQ(ordered.result.totals.by_kind[RawBuilder::kMalloc], 5u);
    EXPECT_NE(ordered.error.find("occurred before"), std::string::npos) << "the first is told";
}

TEST(Order, WaitingInACircleIsDamage)
{
    Lanes raw;
    raw.sequence(0, 51, 3, 2);
    raw.enters(0, 4, 1, 1);
    raw.sequence(1, 51, 4, 2);
    raw.enters(1, 3, 1, 2);
    raw.frees(2, RawBuilder::token(3, 1));
    raw.makes(2, 3);
    raw.frees(3, RawBuilder::token(2, 1));
    raw.makes(3, 4);
    raw.end();
    order_options how = {};
    EXPECT_NE(order(raw.bytes).error.find("lane 0, record 0: waits for its turn, number 2"),
              std::string::npos);
    how.salvage = true;
    Ordered ordered = order(raw.bytes, nullptr, how);
    EXPECT_EQ(ordered.result.status, ORDER_TRACE_SALVAGED);
    EXPECT_EQ(ordered.result.totals.by_kind[RawBuilder::kMalloc], 4u);
    EXPECT_EQ(ordered.result.totals.by_kind[RawBuilder::kFree], 2u);
}

/* Reallocs of lanes 0 and 1 wait for each other. That of lane 1 can go first: what lane 0 does
 * concerns the object that lane 1 moves away, not its new bytes. */
class Circle {
  public:
    static constexpr uint32_t kNew = 2048; /* the new place */

    Circle() : raw(2)
    {
        raw.packing = RawBuilder::kPlain;
        raw.page(0, 512, 0x100000);
        raw.allocation_at(0, RawBuilder::kMalloc, 100, 512, 0);
        raw.page(1, 1536, 0x200000);
        raw.allocation_at(1, RawBuilder::kMalloc, 5000, 1700, 0);
        raw.tick(1000, 0, 0);
        raw.after(0, 1, 2, true);
        raw.realloc(0, RawBuilder::kReallocMoved, RawBuilder::own(512), 4000, 1900);
        raw.after(1, 0, 2, true);
        raw.realloc(1, RawBuilder::kReallocMoved, RawBuilder::own(1700), 3000, kNew);
    }

    /* Whether the realloc of lane 1 is the first of the two. */
    void expect_that_lane_1_goes_first()
    {
        raw.tick(2000, 0, 0);
        Ordered ordered = raw.ordered();
        const size_t first = ordered.text().find("0:realloc_moved4000");
        const size_t second = ordered.text().find("1:realloc_moved3000");
        ASSERT_NE(first, std::string::npos) << ordered.text();
        ASSERT_NE(second, std::string::npos);
        EXPECT_LT(second, first) << ordered.text();
    }

    Lanes raw;
};

TEST(Order, OfACircleTheReallocGoesOnThatWaitsInVain)
{
    Circle circle;
    circle.raw.page(0, Circle::kNew, 0x300000);
    circle.expect_that_lane_1_goes_first();
}

/* Counted in places, the objects would overlap. */
TEST(Order, APageOfACircleMayComeLater)
{
    Circle circle;
    circle.raw.after(2, 0, 2, false);
    circle.raw.allocation_at(2, RawBuilder::kMalloc, 1, 513, 0);
    circle.raw.cut_all();
    circle.raw.page(2, Circle::kNew, 0x300000);
    circle.raw.allocation_at(2, RawBuilder::kMalloc, 1, 514, 0);
    circle.expect_that_lane_1_goes_first();
}

/* Lane 0 gets the last bytes of an object that lane 2 moves away, and lane 1 those before them. It
 * comes after lane 1 alone, which comes after lane 2. What lane 1 does touches none of its bytes. */
TEST(Order, InACircleWhatPrecedesThroughOthersIsNotInVain)
{
    Lanes raw(2);
    raw.packing = RawBuilder::kPlain;
    raw.page(0, 512, 0x100000);
    raw.allocation_at(0, RawBuilder::kMalloc, 100, 512, 0);
    raw.allocation_at(1, RawBuilder::kMalloc, 100, 600, 0);
    raw.page(2, 1536, 0x200000);
    raw.allocation_at(2, RawBuilder::kMalloc, 5000, 1700, 0);
    raw.page(2, 2048, 0x300000);
    raw.tick(1000, 0, 0);
    raw.after(0, 1, 2, true);
    raw.realloc(0, RawBuilder::kReallocMoved, RawBuilder::own(512), 320, 1990);
    raw.after(1, 2, 2, true);
    raw.realloc(1, RawBuilder::kReallocMoved, RawBuilder::own(600), 4000, 1720);
    raw.after(2, 0, 2, true);
    raw.realloc(2, RawBuilder::kReallocMoved, RawBuilder::own(1700), 3000, 2048);
    raw.tick(2000, 0, 0);
    Ordered ordered = raw.ordered();
    EXPECT_NE(ordered.text().find("2:realloc_moved3000 1:realloc_moved4000 0:realloc_moved320 "),
              std::string::npos)
        << ordered.text();
}

/* Only lanes that there are cost time, and a circle is gone through once. */
TEST(Order, CirclesOfLanesWithHighNumbers)
{
    Lanes raw;
    for (uint32_t i = 0; i < 20; i++) {
        uint32_t a = 2 * i, b = 65535 - a;
        raw.frees(a, RawBuilder::token(b, 1));
        raw.makes(a, 1);
        raw.frees(b, RawBuilder::token(a, 1));
        raw.makes(b, 2);
    }
    for (uint64_t i = 1; i < 20; i++)
        raw.tick(i, 0, 0);
    raw.end();
    order_options how = {};
    how.salvage = true;
    clock_t before = clock();
    Ordered ordered = order(raw.bytes, nullptr, how);
    EXPECT_LT(clock() - before, 2 * CLOCKS_PER_SEC);
    EXPECT_EQ(ordered.result.status, ORDER_TRACE_SALVAGED);
    EXPECT_EQ(ordered.result.totals.by_kind[RawBuilder::kMalloc], 40u);
    EXPECT_EQ(ordered.result.totals.by_kind[RawBuilder::kFree], 40u);
}

/* A number behind a loss is of a call that was lost: the loss does not wait for it. */
TEST(Order, ALossDoesNotWaitForTheNumbersBehindIt)
{
    Lanes raw;
    raw.makes(0, 1);
    raw.lost(0, 1, 1);
    raw.sequence(0, 52, 255, 2);
    raw.frees(1, RawBuilder::foreign(0, 2, 77));
    raw.sequence(1, 52, 255, 1);
    Ordered ordered = raw.ordered();
    EXPECT_EQ(ordered.text(), "0:malloc1 0:lost 1:free?");
    EXPECT_EQ(ordered.result.order.sequences, 2u);
}

/* A loss is told of when it is over. Who needs what was lost is late until then; nobody else is. */
TEST(Order, LossesThatLastForWindows)
{
    for (unsigned windows : {3u, 7u, 20u}) {
        Lanes raw;
        raw.makes(1, 1);
        raw.frees(0, RawBuilder::token(1, 3));
        raw.makes(0, 5);
        raw.enters(2, 3, 1, 6);
        for (unsigned i = 1; i <= windows; i++) {
            raw.makes(3, 8);
            raw.tick(i, 0, 0);
        }
        raw.lost(1, 4, 3);
        uint64_t last = raw.makes(1, 7);
        EXPECT_EQ(last, RawBuilder::token(1, 5));
        raw.frees(3, last);
        raw.tick(windows + 1, 0, 0);
        raw.end();
        Ordered ordered = order(raw.bytes);
        SCOPED_TRACE(ordered.text());
        EXPECT_EQ(ordered.error, "");
        EXPECT_EQ(ordered.result.status, ORDER_TRACE_CUT) << "events were lost";
        EXPECT_EQ(ordered.result.order.lost_events, 4u);
        EXPECT_EQ(ordered.result.order.unknown_objects, 1u);
        EXPECT_EQ(ordered.result.totals.live, 4u + windows - 1);
        EXPECT_GT(ordered.text().find("0:malloc5"), ordered.text().find("lost"));
        EXPECT_LT(ordered.text().find("2:malloc6"), ordered.text().find("tick"));
    }
}

/* A thread takes number 1, and is off its processor for many windows before it records that. */
TEST(Order, WhoNeedsALateNumberIsLateAndNobodyElse)
{
    Lanes raw;
    raw.enters(1, 3, 2, 1);
    for (unsigned i = 1; i <= 30; i++) {
        raw.makes(1, 100 + i);
        raw.makes(2, 200 + i);
        raw.tick(i, 0, 0);
    }
    raw.enters(0, 3, 1, 9);
    raw.tick(31, 0, 0);
    raw.end();
    Ordered ordered = order(raw.bytes);
    EXPECT_EQ(ordered.result.status, ORDER_TRACE_COMPLETE) << ordered.error;
    std::string text = "2:malloc201 2:malloc202 2:tick1 2:tick1 ";
    for (unsigned i = 3; i <= 30; i++)
        text += "2:malloc" + std::to_string(200 + i) + " 2:tick1 ";
    text += "0:malloc9 1:malloc1 ";
    EXPECT_EQ(ordered.text().substr(0, text.size()), text);
    EXPECT_EQ(ordered.result.totals.live, 62u);
    EXPECT_EQ(ordered.result.order.windows, 32u);
}

/* A number that is missing for longer than a thread can have been off its processor. */
TEST(Order, LatenessHasALimit)
{
    Lanes raw;
    raw.enters(1, 3, 2, 1);
    for (unsigned i = 1; i <= 65700; i++)
        raw.tick(i, 0, 0);
    raw.enters(0, 3, 1, 9);
    raw.end();
    Ordered ordered = order(raw.bytes);
    EXPECT_EQ(ordered.result.status, ORDER_TRACE_DAMAGED);
    EXPECT_NE(ordered.error.find("lane 1, record 0: waits for its turn, number 2"),
              std::string::npos)
        << ordered.error;
    order_options how = {};
    how.salvage = true;
    ordered = order(raw.bytes, nullptr, how);
    EXPECT_EQ(ordered.result.status, ORDER_TRACE_SALVAGED);
    EXPECT_EQ(ordered.result.totals.live, 2u);
}

/* What is to come is looked through once, not once for each number that is missing. */
TEST(Order, ManyMissingNumbers)
{
    const uint64_t numbers = 40000;
    Lanes raw;
    raw.lost(0, 1, 0);
    for (uint64_t i = 1; i <= numbers; i++) {
        raw.sequence(0, 51, 3, 2 * i);
        raw.makes(0, i % 1000);
    }
    raw.end();
    clock_t before = clock();
    Ordered ordered = order(raw.bytes);
    EXPECT_LT(clock() - before, 2 * CLOCKS_PER_SEC);
    EXPECT_EQ(ordered.result.status, ORDER_TRACE_CUT) << "events were lost";
    EXPECT_EQ(ordered.result.order.sequences, numbers);
    EXPECT_EQ(ordered.result.order.sequences_missing, numbers);
}

TEST(Order, PatienceHasALimit)
{
    Lanes raw;
    raw.sequence(1, 51, 3, 2);
    for (uint64_t i = 0; i < 400000; i++)
        raw.makes(1, i % 30000);
    raw.cut(1);
    raw.makes(0, 7);
    raw.tick(10, 0, 0);
    raw.enters(0, 3, 1, 8);
    raw.end();
    EXPECT_EQ(order(raw.bytes).result.status, ORDER_TRACE_COMPLETE);
    order_options how = {};
    how.patience_bytes = 1000;
    Ordered ordered = order(raw.bytes, nullptr, how);
    EXPECT_EQ(ordered.result.status, ORDER_TRACE_DAMAGED);
    EXPECT_EQ(ordered.text(), "0:malloc7") << "what does not depend on it is delivered";
}

/* Bytes that no checksum fits. */
TEST(Order, SalvageFindsTheNextChunk)
{
    RawSimulator::Options options;
    options.lanes = 3;
    options.steps = 30000;
    options.tick_every = 500;
    RawSimulator simulator(options);
    simulator.raw.end();
    uint64_t random = 88172645463325252u, events = 0;
    order_options how = {};
    how.salvage = true;
    const int rounds = test_size(20, 60);
    for (int round = 0; round < rounds; round++) {
        std::string raw = simulator.raw.bytes;
        random = random * 6364136223846793005u + 1442695040888963407u;
        size_t at = 100 + (random >> 20) % (raw.size() - 200);
        if (round % 3 == 0)
            raw.erase(at, 70);
        else
            raw[at] = static_cast<char>(raw[at] ^ 0x55);
        Ordered ordered = order(raw, nullptr, how);
        SCOPED_TRACE("byte " + std::to_string(at));
        EXPECT_EQ(ordered.state, INSTRUCTIONS_END);
        EXPECT_EQ(ordered.result.status, ORDER_TRACE_SALVAGED) << ordered.error;
        EXPECT_NE(ordered.error.find("offset 0x"), std::string::npos) << ordered.error;
        EXPECT_LE(ordered.result.totals.calls, simulator.calls);
        events += ordered.result.totals.calls;
    }
    /* A lane is lost up to its next key segment. */
    EXPECT_GT(events, rounds * simulator.calls / 2);
    EXPECT_LT(events, rounds * simulator.calls);
    EXPECT_EQ(order(simulator.raw.bytes, nullptr, how).result.status, ORDER_TRACE_COMPLETE);
    Ordered trailing = order(simulator.raw.bytes + "something", nullptr, how);
    EXPECT_EQ(trailing.result.status, ORDER_TRACE_SALVAGED);
    EXPECT_FALSE(trailing.result.truncated);
    EXPECT_EQ(trailing.result.totals.calls, simulator.calls);
    std::string cut = simulator.raw.bytes.substr(0, simulator.raw.bytes.size() / 2);
    EXPECT_EQ(order(cut, nullptr, how).result.status, ORDER_TRACE_CUT) << "that is no damage";
}

/* What is behind a record that ends in the middle still pairs, though it was an allocation. */
TEST(Order, SalvageCountsNoHalfAllocations)
{
    Lanes raw;
    raw.makes(0, 1);
    raw.units(0, {0xf001}, 1); /* malloc, and no size */
    uint64_t last = 0;
    for (int run = 0; run < 40; run++) {
        raw.end_segment(0);
        raw.frees(1, last);
        last = raw.allocation(0, RawBuilder::kMalloc, 1000 + static_cast<uint64_t>(run));
    }
    raw.frees(1, last);
    raw.end();
    order_options how = {};
    how.salvage = true;
    Ordered ordered = order(raw.bytes, nullptr, how);
    EXPECT_EQ(ordered.result.status, ORDER_TRACE_SALVAGED);
    EXPECT_EQ(ordered.result.order.damages, 1u) << ordered.text();
    std::map<uint32_t, uint64_t> sizes;
    uint64_t frees = 0, known = 0;
    for (const Instruction &one : ordered.all) {
        unsigned number = one.opcode & INSTRUCTION_NUMBER_MASK;
        if (number == RawBuilder::kMalloc) sizes[one.object] = one.size;
        if (number != RawBuilder::kFree) continue;
        frees++;
        if ((one.opcode & INSTRUCTION_UNKNOWN) != 0) continue;
        known++;
        EXPECT_EQ(sizes[one.object], 1000 + frees - 2);
    }
    EXPECT_EQ(frees, 41u);
    EXPECT_GT(known, 20u);
    EXPECT_EQ(ordered.result.totals.live, 1u);
}

TEST(Order, SalvageOfWrongRecordsDoesNoHarm)
{
    RawSimulator::Options options;
    options.lanes = 6;
    options.steps = 1000;
    options.tick_every = 100;
    options.classes = 4;
    options.batch = 2;
    options.share_every = 2;
    RawSimulator simulator(options);
    simulator.raw.end();
    uint64_t random = 1234567891234567u, events = 0, whole = 0;
    order_options how = {};
    how.salvage = true;
    for (int round = 0; round < 100; round++) {
        std::string raw = with_wrong_records(simulator.raw.bytes, &random, 1 + round % 3);
        Ordered ordered = order(raw, nullptr, how);
        EXPECT_EQ(ordered.state, INSTRUCTIONS_END);
        EXPECT_EQ(ordered.error.empty(), ordered.result.status < ORDER_TRACE_SALVAGED);
        events += ordered.result.totals.calls;
        whole += simulator.calls;
    }
    EXPECT_GT(events, whole / 2);
}

/* Cut anywhere, with whatever is then missing. */
TEST(Order, SimulatedProgramsCutAnywhere)
{
    RawSimulator::Options options;
    options.lanes = 4;
    options.steps = 2000;
    options.tick_every = 200;
    options.classes = 4;
    options.batch = 2;
    options.share_every = 2;
    RawSimulator simulator(options);
    simulator.raw.end();
    const std::string &bytes = simulator.raw.bytes;
    uint64_t before = 0;
    const size_t step = static_cast<size_t>(test_size(111, 37));
    for (size_t length = 100; length < bytes.size(); length += step) {
        Ordered ordered = order(bytes.substr(0, length));
        ASSERT_EQ(ordered.result.status, ORDER_TRACE_CUT) << length << ": " << ordered.error;
        EXPECT_GE(ordered.result.totals.calls, before);
        EXPECT_EQ(ordered.state, INSTRUCTIONS_END);
        before = ordered.result.totals.calls;
    }
    EXPECT_GT(before, 3500u);
}

} // namespace
