// The instruction codec: bytes the writer makes, and what the reader makes of good and of damaged
// streams.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <lz4frame.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "common/bytes.h"
#include "common/call_table.h"
#include "stream/checksum.h"
#include "stream/instruction_reader.h"
#include "stream/instruction_writer.h"
#include "stream/metadata.h"
#include "stream/varint.h"
#include "tests/test_size.h"

namespace {

// A file in memory.
class Memory {
  public:
    Memory() : fd_(memfd_create("stream", MFD_CLOEXEC)) {}
    explicit Memory(const std::string &bytes) : Memory()
    {
        EXPECT_EQ(write(fd_, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
        lseek(fd_, 0, SEEK_SET);
    }
    ~Memory() { close(fd_); }
    int fd() const { return fd_; }
    std::string bytes() const
    {
        std::string all(static_cast<size_t>(lseek(fd_, 0, SEEK_END)), '\0');
        EXPECT_EQ(pread(fd_, &all[0], all.size(), 0), static_cast<ssize_t>(all.size()));
        return all;
    }

  private:
    int fd_;
};

std::string hex(const std::string &bytes)
{
    std::string text;
    char one[3];
    for (unsigned char byte : bytes) {
        snprintf(one, sizeof one, "%02x", byte);
        text += one;
    }
    return text;
}

// The stream that `put` makes of a writer.
std::string written(const std::function<void(instruction_writer *)> &put, uint64_t features = 0,
                    const std::string &metadata = "")
{
    Memory memory;
    output out;
    instruction_writer writer;
    instruction_header header = {};
    header.features = features;
    header.metadata = metadata.data();
    header.metadata_bytes = metadata.size();
    EXPECT_TRUE(output_open_fd(&out, memory.fd()));
    EXPECT_TRUE(instruction_writer_open(&writer, &out, &header));
    put(&writer);
    EXPECT_TRUE(instruction_writer_finish(&writer, INSTRUCTION_STATUS_COMPLETE));
    instruction_writer_close(&writer);
    EXPECT_TRUE(output_close(&out));
    return memory.bytes();
}

struct Read {
    std::vector<instruction> instructions;
    std::vector<std::vector<uint64_t>> operands;
    std::vector<uint64_t> addresses;
    instruction_state state;
    error failure;
    instruction_totals totals;
    uint64_t live_bytes, peak_live_bytes;
    instruction_status end_status;

    std::string error_name() const { return failure.kind == nullptr ? "" : failure.kind->name; }
};

// Gives instructions with indices their registers: by the rule of INSTRUCTIONS.md 4.5.
class Indices {
  public:
    // An instruction; how many objects the walk says are alive behind it.
    void follow(instruction *one, uint64_t live)
    {
        if (one->object != INSTRUCTION_NO_REGISTER) name(one);
        EXPECT_EQ(live, live_);
    }

  private:
    std::vector<uint32_t> row_;
    size_t live_ = 0;

    void name(instruction *one)
    {
        size_t index = one->object;
        EXPECT_LE(index, live_);
        if (index == row_.size()) row_.push_back(one->object);
        one->object = row_[index];
        uint8_t shape = call_shapes[instruction_number(one)];
        if (index == live_)
            live_++;
        else if (shape != SHAPE_REALLOC)
            std::swap(row_[index], row_[--live_]);
    }
};

Read read_stream_once(const std::string &bytes, bool indices)
{
    Memory memory(bytes);
    Read result = {};
    input in;
    instruction_reader reader;
    instruction_batch batch;
    Indices row;
    input_open_fd(&in, memory.fd());
    if (instruction_reader_open(&reader, &in)) {
        if (indices) instruction_reader_use_indices(&reader);
        while (instruction_reader_next(&reader, &batch)) {
            instruction_walk walk = instruction_walk_over(&batch, batch.count);
            instruction one;
            const instruction_turn *turn = batch.turns;
            uint64_t calls = 0;
            for (size_t at = 0; instruction_walk_next(&walk, &one); at++) {
                if (indices) row.follow(&one, walk.live);
                EXPECT_EQ(walk.at, at + 1);
                EXPECT_EQ(one.opcode, batch.opcodes[at]);
                EXPECT_TRUE(one.object == INSTRUCTION_NO_REGISTER || one.object < batch.registers);
                result.instructions.push_back(one);
                const uint64_t *first = batch.operands + one.operand_at;
                result.operands.emplace_back(first, first + one.operands);
                result.addresses.push_back(batch.addresses ? batch.addresses[at] : 0);
                if (one.opcode == INSTRUCTION_LANE) {
                    EXPECT_EQ(turn->at, at);
                    EXPECT_EQ(turn++->lane, first[0]);
                }
                calls += instruction_does[one.opcode] != INSTRUCTION_OTHER;
            }
            EXPECT_EQ(walk.at, batch.count);
            EXPECT_EQ(walk.live, reader.totals.live);
            EXPECT_EQ(turn, batch.turns + batch.turns_count);
            EXPECT_EQ(instruction_batch_after_call(&batch, calls + 1), batch.count);
            if (instruction_does[one.opcode] != INSTRUCTION_OTHER) {
                EXPECT_EQ(instruction_batch_after_call(&batch, calls), batch.count);
            }
        }
    }
    result.state = reader.state;
    result.failure = reader.error;
    result.totals = reader.totals;
    result.live_bytes = reader.objects.bytes;
    result.peak_live_bytes = reader.objects.peak_bytes;
    result.end_status = reader.end_status;
    instruction_reader_close(&reader);
    input_close(&in);
    return result;
}

void expect_same(const Read &read, const Read &other)
{
    EXPECT_EQ(read.state, other.state);
    EXPECT_EQ(read.error_name(), other.error_name());
    EXPECT_STREQ(read.failure.detail, other.failure.detail);
    EXPECT_EQ(read.instructions.size(), other.instructions.size());
    for (size_t i = 0; i < read.instructions.size() && i < other.instructions.size(); i++)
        EXPECT_EQ(memcmp(&read.instructions[i], &other.instructions[i], sizeof(instruction)), 0)
            << i;
    EXPECT_EQ(read.operands, other.operands);
    EXPECT_EQ(read.addresses, other.addresses);
    EXPECT_EQ(memcmp(&read.totals, &other.totals, sizeof read.totals), 0);
    EXPECT_EQ(read.live_bytes, other.live_bytes);
    EXPECT_EQ(read.peak_live_bytes, other.peak_live_bytes);
    EXPECT_EQ(read.end_status, other.end_status);
}

// Reads a stream with registers, and makes sure that indices tell the same. Only wrong live bytes
// go unnoticed then, and a wrong number of registers, of which indices know no more than a bound.
Read read_stream(const std::string &bytes)
{
    Read read = read_stream_once(bytes, false), indices = read_stream_once(bytes, true);
    const char *detail = read.failure.detail;
    EXPECT_GE(indices.totals.registers, read.totals.registers);
    indices.totals.registers = read.totals.registers;
    if (strstr(detail, " bytes: ") == nullptr && strstr(detail, "registers: ") == nullptr)
        expect_same(read, indices);
    return read;
}

std::string number(uint64_t value)
{
    uint8_t bytes[VARINT_SLACK];
    uint8_t *end = varint_put(bytes, value);
    return std::string(bytes, end);
}

std::string fixed32(uint32_t value)
{
    return std::string(reinterpret_cast<const char *>(&value), 4);
}

std::string block(uint32_t count, const std::string &payload)
{
    std::string head = "MTBI" + fixed32(static_cast<uint32_t>(payload.size())) + fixed32(count);
    uint32_t sum =
        checksum_of_two(reinterpret_cast<const uint8_t *>(head.data()), head.size(),
                        reinterpret_cast<const uint8_t *>(payload.data()), payload.size());
    return head + fixed32(sum) + payload;
}

const uint8_t *bytes_at(const std::string &stream, size_t at)
{
    return reinterpret_cast<const uint8_t *>(stream.data()) + at;
}

size_t block_payload_bytes(const std::string &stream, size_t at)
{
    return bytes_get32(bytes_at(stream, at + 4));
}

// What a block is made of. Operands are those besides large values, which come first.
struct Block {
    std::string opcodes;
    std::vector<uint64_t> values = {}; // zeroes may be left out at the end
    uint64_t live_bytes = 0, peak_bytes = 0;
    std::string operands = {}, addresses = {};
};

std::string payload_of(uint64_t live_bytes, uint64_t peak_bytes, const std::string &columns,
                       const std::string &operands, const std::string &addresses = "")
{
    return number(live_bytes) + number(peak_bytes) + number(operands.size()) + columns + operands +
           addresses;
}

std::string block_of(const Block &from)
{
    std::string low, high, large;
    for (size_t i = 0; i < from.opcodes.size(); i++) {
        uint64_t value = i < from.values.size() ? from.values[i] : 0;
        if (value >= INSTRUCTION_ESCAPE) {
            large += number(value);
            value = INSTRUCTION_ESCAPE;
        }
        low += static_cast<char>(value);
        high += static_cast<char>(value >> 8);
    }
    return block(static_cast<uint32_t>(from.opcodes.size()),
                 payload_of(from.live_bytes, from.peak_bytes, from.opcodes + low + high,
                            large + from.operands, from.addresses));
}

std::string end_of(uint64_t live, uint64_t registers,
                   const std::vector<std::pair<uint64_t, uint64_t>> &kinds)
{
    std::string payload = number(0) + number(live) + number(registers) + number(0) + number(0) +
                          number(0) + number(kinds.size());
    for (auto &kind : kinds)
        payload += number(kind.first) + number(kind.second);
    return block(0, payload);
}

std::string header_of(uint64_t features = 0)
{
    std::string stream = written([](instruction_writer *) {}, features);
    return stream.substr(0, INSTRUCTION_HEADER_BYTES);
}

uint32_t put_malloc(instruction_writer *writer, uint64_t size)
{
    return instruction_put_allocation(writer, CALL_MALLOC, size, 0);
}

// Every shape with every flag it may have.
void put_everything(instruction_writer *writer)
{
    uint64_t numbers[2] = {1, UINT64_MAX};
    instruction_put_thread_begin(writer, 77);
    uint32_t first = put_malloc(writer, 24);
    instruction_put_lane(writer, 3);
    uint32_t second = instruction_put_allocation_with(writer, CALL_POSIX_MEMALIGN, 100, 4096, 0);
    instruction_put_realloc(writer, CALL_REALLOC_IN_PLACE, first, 50, 0);
    instruction_put_realloc_failed(writer, first, UINT64_MAX);
    instruction_put_allocation_failed(writer, CALL_MALLOC, UINT64_MAX, 0);
    instruction_put_allocation_failed(writer, CALL_MEMALIGN, 1, 3);
    uint32_t third = instruction_put_realloc_unknown(writer, CALL_REALLOC_MOVED, 10, 0);
    instruction_put_realloc_unknown_failed(writer, 11);
    instruction_put_free_unknown(writer, CALL_FREE, 0, 0);
    instruction_put_free_unknown(writer, CALL_DELETE_SIZED_ALIGNED, 12, 64);
    instruction_put_free_sized(writer, CALL_DELETE_SIZED, first, 50);
    instruction_put_free_with(writer, CALL_DELETE_ALIGNED, second, 0, 4096);
    instruction_put_free_with(writer, CALL_FREE_ALIGNED_SIZED, third, 10, 16);
    instruction_put_heap(writer, CALL_SET_PROPERTY, 2, numbers);
    instruction_put_heap(writer, CALL_THREAD_IDLE, 0, numbers);
    instruction_put_tick(writer, 10, 20, 30);
    instruction_put_lost(writer, 3, 1000);
    instruction_put_thread_cache_deleted(writer);
    instruction_put_thread_end(writer);
    instruction_put_freed_twice(writer);
    instruction_put_free_unknown(writer, CALL_FREE_SIZED, 50, 0);
    instruction_put_missed_free(writer, put_malloc(writer, 1));
}

// INSTRUCTIONS.md 4.9: of the base, objects, registers and threads count, calls and peaks do not.
TEST(Instructions, Base)
{
    const std::string stream = written(
        [](instruction_writer *writer) {
            instruction_put_thread_begin(writer, 77);
            const uint32_t first = put_malloc(writer, 1000);
            put_malloc(writer, 24);
            instruction_put_free(writer, CALL_FREE, first);
            instruction_put_base_end(writer);
            put_malloc(writer, 8);
        },
        INSTRUCTION_FEATURE_BASE);
    const Read read = read_stream(stream);
    EXPECT_EQ(read.state, INSTRUCTIONS_END) << read.failure.detail;
    EXPECT_EQ(read.instructions.size(), 6u);
    EXPECT_EQ(read.totals.instructions, 6u);
    EXPECT_EQ(read.totals.calls, 1u);
    EXPECT_EQ(read.totals.by_kind[CALL_MALLOC], 1u);
    EXPECT_EQ(read.totals.threads, 1u);
    EXPECT_EQ(read.totals.registers, 2u);
    EXPECT_EQ(read.totals.base_calls, 3u);
    EXPECT_EQ(read.totals.base_live, 1u);
    EXPECT_EQ(read.totals.base_live_bytes, 24u);
    EXPECT_EQ(read.live_bytes, 32u);
    EXPECT_EQ(read.peak_live_bytes, 32u);
}

// What the opcodes of INSTRUCTIONS.md 5.1 do to objects, by the shapes there.
TEST(InstructionReader, WhatAnOpcodeDoes)
{
    for (unsigned opcode = 0; opcode <= UINT8_MAX; opcode++) {
        const unsigned number = opcode & INSTRUCTION_NUMBER_MASK, shape = call_shapes[number];
        const bool failed = opcode & INSTRUCTION_FAILED, unknown = opcode & INSTRUCTION_UNKNOWN;
        unsigned expected = INSTRUCTION_CALLS;
        if (opcode >= INSTRUCTION_LANE && opcode <= INSTRUCTION_LAST)
            expected = INSTRUCTION_OTHER;
        else if (shape == SHAPE_REALLOC && !failed)
            expected = unknown ? INSTRUCTION_BEGINS : INSTRUCTION_RESIZES;
        else if (shape_is_allocation(shape) && !failed && !unknown)
            expected = INSTRUCTION_BEGINS;
        else if (shape_is_free(shape) && !failed && !unknown)
            expected = INSTRUCTION_ENDS;
        EXPECT_EQ(instruction_does[opcode], expected) << opcode;
    }
}

TEST(InstructionWriter, ExampleOfTheDocument)
{
    // INSTRUCTIONS.md 5.4
    std::string stream = written([](instruction_writer *writer) {
        instruction_put_lane(writer, 3);
        uint32_t object = put_malloc(writer, 24);
        EXPECT_EQ(instruction_put_allocation(writer, CALL_CALLOC, 300, 0), 1u);
        instruction_put_free(writer, CALL_FREE, object);
    });
    std::string payload =
        stream.substr(INSTRUCTION_HEADER_BYTES + INSTRUCTION_BLOCK_HEADER_BYTES, 18);
    EXPECT_EQ(hex(payload), "b2041205"
                            "03"
                            "30010215"
                            "00182c01"
                            "00000100"
                            "07");
    EXPECT_EQ(stream.substr(INSTRUCTION_HEADER_BYTES, 34), block(4, payload));
    EXPECT_EQ(stream.substr(INSTRUCTION_HEADER_BYTES + 34),
              end_of(1, 2, {{1, 1}, {2, 1}, {21, 1}}));
}

TEST(InstructionWriter, Header)
{
    std::string stream = written([](instruction_writer *) {}, INSTRUCTION_FEATURE_ADDRESSES,
                                 "program=x\nenv.A=b=c\n");
    EXPECT_EQ(hex(stream.substr(0, 32)), "4d54415045494e53"
                                         "04000000"
                                         "14000000"
                                         "0100000000000000"
                                         "0000000000000000");
    Memory memory(stream);
    input in;
    instruction_reader reader;
    input_open_fd(&in, memory.fd());
    ASSERT_TRUE(instruction_reader_open(&reader, &in));
    size_t bytes = 0;
    const std::string metadata(reader.header.metadata, reader.header.metadata_bytes);
    const char *value = metadata_value(metadata.data(), metadata.size(), "env.A", &bytes);
    ASSERT_NE(value, nullptr);
    EXPECT_EQ(std::string(value, bytes), "b=c");
    EXPECT_EQ(metadata_value(metadata.data(), metadata.size(), "env", &bytes), nullptr);
    instruction_reader_close(&reader);
    input_close(&in);
}

TEST(InstructionWriter, LatestFreedRegisterIsTakenFirst)
{
    written([](instruction_writer *writer) {
        uint32_t a = put_malloc(writer, 1), b = put_malloc(writer, 2), c = put_malloc(writer, 3);
        EXPECT_EQ(a, 0u);
        EXPECT_EQ(b, 1u);
        EXPECT_EQ(c, 2u);
        instruction_put_free(writer, CALL_FREE, a);
        instruction_put_free(writer, CALL_FREE, c);
        EXPECT_EQ(put_malloc(writer, 4), c);
        EXPECT_EQ(put_malloc(writer, 5), a);
        EXPECT_EQ(put_malloc(writer, 6), 3u);
    });
}

TEST(InstructionReader, PositionsOfTheDocument)
{
    // INSTRUCTIONS.md 4.5
    Read read =
        read_stream(header_of() +
                    block_of({"\x01\x01\x01\x15\x01\x15\x15\x15", {1, 2, 3, 2, 4, 1, 1, 0}, 0, 9}) +
                    end_of(0, 3, {{1, 4}, {21, 4}}));
    ASSERT_EQ(read.state, INSTRUCTIONS_END) << read.error_name();
    std::vector<uint32_t> objects;
    for (const instruction &one : read.instructions)
        objects.push_back(one.object);
    EXPECT_EQ(objects, (std::vector<uint32_t>{0, 1, 2, 0, 0, 1, 2, 0}));
}

TEST(InstructionWriter, FailureOfTheOutputIsKept)
{
    int full = open("/dev/full", O_WRONLY);
    if (full < 0) GTEST_SKIP() << "no /dev/full";
    output out;
    instruction_writer writer;
    instruction_header header = {};
    output_open_fd(&out, full);
    instruction_writer_open(&writer, &out, &header);
    std::vector<uint32_t> objects;
    for (int i = 0; i < 300000; i++)
        objects.push_back(put_malloc(&writer, 100));
    EXPECT_TRUE(instruction_writer_failed(&writer));
    for (int i = 0; i < 300000; i++)
        instruction_put_free(&writer, CALL_FREE, 0);
    EXPECT_FALSE(instruction_writer_finish(&writer, INSTRUCTION_STATUS_COMPLETE));
    EXPECT_EQ(writer.error.kind, &error_system);
    instruction_writer_close(&writer);
    EXPECT_FALSE(output_close(&out));
    close(full);
}

TEST(InstructionWriter, LongestInstructionsFitIntoBlocks)
{
    const uint64_t count = 40000;
    Read read = read_stream(written([&](instruction_writer *writer) {
        for (uint64_t i = 0; i < count; i++)
            instruction_put_tick(writer, UINT64_MAX - i, UINT64_MAX, UINT64_MAX);
    }));
    EXPECT_EQ(read.state, INSTRUCTIONS_END);
    EXPECT_EQ(read.totals.ticks, count);
    EXPECT_EQ(read.operands[count - 1][0], UINT64_MAX - (count - 1));
}

/* A usage is of the tick that follows it in its block, and the writer keeps them together. */
TEST(InstructionWriter, UsagesStandBeforeTheirTicks)
{
    for (uint64_t before : {UINT64_C(0), uint64_t{INSTRUCTION_BLOCK_MAX} - 2,
                            uint64_t{INSTRUCTION_BLOCK_MAX} - 1, uint64_t{INSTRUCTION_BLOCK_MAX}}) {
        const original_usage usage = {before, 2, 3, UINT64_MAX};
        Memory memory(written([&](instruction_writer *writer) {
            for (uint64_t i = 0; i < before; i++)
                instruction_put_thread_end(writer);
            instruction_put_tick_with_usage(writer, 10, 20, 30, &usage, nullptr);
            instruction_put_tick(writer, 10, 20, 30);
        }));
        input in;
        instruction_reader reader;
        instruction_batch batch;
        std::vector<bool> found;
        input_open_fd(&in, memory.fd());
        ASSERT_TRUE(instruction_reader_open(&reader, &in));
        while (instruction_reader_next(&reader, &batch))
            for (size_t i = 0; i < batch.ticks_count; i++) {
                original_usage read = {};
                found.push_back(instruction_batch_usage(&batch, &batch.ticks[i], &read));
                if (found.back()) {
                    EXPECT_EQ(memcmp(&read, &usage, sizeof usage), 0);
                }
            }
        EXPECT_EQ(reader.state, INSTRUCTIONS_END);
        EXPECT_EQ(found, (std::vector<bool>{true, false})) << before;
        instruction_reader_close(&reader);
        input_close(&in);
    }
}

/* Those that have changed stand before their tick, in its block. */
TEST(InstructionWriter, StatisticsStandBeforeTheirTicks)
{
    const original_usage usage = {1, 2, 3, 4};
    const original_statistics said[] = {{3, {5, 0, UINT64_MAX}}, {3, {5, 7, UINT64_MAX}}};
    for (uint64_t before : {UINT64_C(0), uint64_t{INSTRUCTION_BLOCK_MAX} - 18,
                            uint64_t{INSTRUCTION_BLOCK_MAX} - 2, uint64_t{INSTRUCTION_BLOCK_MAX}}) {
        Memory memory(written([&](instruction_writer *writer) {
            for (uint64_t i = 0; i < before; i++)
                instruction_put_thread_end(writer);
            for (const original_statistics &one : said)
                instruction_put_tick_with_usage(writer, 10, 20, 30, &usage, &one);
            instruction_put_tick_with_usage(writer, 10, 20, 30, &usage, &said[1]);
        }));
        input in;
        instruction_reader reader;
        instruction_batch batch;
        original_statistics read = {};
        std::vector<size_t> changed;
        input_open_fd(&in, memory.fd());
        ASSERT_TRUE(instruction_reader_open(&reader, &in));
        while (instruction_reader_next(&reader, &batch))
            for (size_t i = 0; i < batch.ticks_count; i++) {
                const original_statistics &wanted = said[changed.empty() ? 0 : 1];
                original_usage unused = {};
                changed.push_back(batch.ticks[i].changed);
                instruction_batch_statistics(&batch, &batch.ticks[i], &read);
                EXPECT_EQ(memcmp(&read, &wanted, sizeof read), 0);
                EXPECT_TRUE(instruction_batch_usage(&batch, &batch.ticks[i], &unused));
            }
        EXPECT_EQ(reader.state, INSTRUCTIONS_END);
        EXPECT_EQ(changed, (std::vector<size_t>{3, 1, 0})) << before;
        instruction_reader_close(&reader);
        input_close(&in);
    }
}

/* Elsewhere a statistic says nothing, also where a usage stands between two of them. */
TEST(InstructionReader, StatisticsStandBeforeTheirTicks)
{
    const struct {
        std::vector<unsigned> before;
        size_t changed;
        uint64_t operand;
    } cases[] = {
        {{INSTRUCTION_STATISTIC, INSTRUCTION_THREAD_END}, 0, 0},
        {{INSTRUCTION_STATISTIC, INSTRUCTION_THREAD_END, INSTRUCTION_USAGE}, 0, 0},
        {{INSTRUCTION_STATISTIC, INSTRUCTION_USAGE, INSTRUCTION_STATISTIC}, 1, 2},
        {{INSTRUCTION_USAGE, INSTRUCTION_STATISTIC, INSTRUCTION_STATISTIC}, 2, 1},
        {{INSTRUCTION_STATISTIC, INSTRUCTION_STATISTIC, INSTRUCTION_USAGE}, 2, 0},
    };
    for (const auto &one : cases) {
        Memory memory(written([&](instruction_writer *writer) {
            for (size_t i = 0; i < one.before.size(); i++) {
                const unsigned operands = one.before[i] == INSTRUCTION_STATISTIC ? 2
                                          : one.before[i] == INSTRUCTION_USAGE   ? 4
                                                                                 : 0;
                instruction_put_opcode(writer, one.before[i], 0);
                for (unsigned operand = 0; operand < operands; operand++)
                    instruction_put_operand(writer, operands == 2 ? i : UINT64_MAX);
                instruction_put_end(writer);
            }
            instruction_put_tick(writer, 10, 20, 30);
        }));
        input in;
        instruction_reader reader;
        instruction_batch batch;
        input_open_fd(&in, memory.fd());
        ASSERT_TRUE(instruction_reader_open(&reader, &in));
        ASSERT_TRUE(instruction_reader_next(&reader, &batch));
        EXPECT_EQ(batch.ticks[0].changed, one.changed);
        if (one.changed > 0) {
            EXPECT_EQ(batch.operands[batch.ticks[0].changed_at], one.operand);
        }
        instruction_reader_close(&reader);
        input_close(&in);
    }
}

TEST(InstructionReader, EverythingComesBack)
{
    Read read = read_stream(written(put_everything));
    ASSERT_EQ(read.state, INSTRUCTIONS_END);
    ASSERT_EQ(read.instructions.size(), 26u);
    auto expect = [&](size_t at, unsigned opcode, uint32_t object, uint64_t size,
                      const std::vector<uint64_t> &operands) {
        EXPECT_EQ(read.instructions[at].opcode, opcode) << at;
        EXPECT_EQ(read.instructions[at].object, object) << at;
        EXPECT_EQ(read.instructions[at].size, size) << at;
        EXPECT_EQ(read.operands[at], operands) << at;
    };
    const uint32_t none = INSTRUCTION_NO_REGISTER;
    expect(0, INSTRUCTION_THREAD_BEGIN, none, 0, {77});
    expect(1, CALL_MALLOC, 0, 24, {});
    expect(2, INSTRUCTION_LANE, none, 0, {3});
    expect(3, CALL_POSIX_MEMALIGN, 1, 100, {4096});
    expect(4, CALL_REALLOC_IN_PLACE, 0, 50, {});
    expect(5, CALL_REALLOC_MOVED | INSTRUCTION_FAILED, 0, UINT64_MAX, {});
    expect(6, CALL_MALLOC | INSTRUCTION_FAILED, none, UINT64_MAX, {});
    expect(7, CALL_MEMALIGN | INSTRUCTION_FAILED, none, 1, {3});
    expect(8, CALL_REALLOC_MOVED | INSTRUCTION_UNKNOWN, 2, 10, {});
    expect(9, CALL_REALLOC_MOVED | INSTRUCTION_FAILED | INSTRUCTION_UNKNOWN, none, 11, {});
    expect(10, CALL_FREE | INSTRUCTION_UNKNOWN, none, 0, {});
    expect(11, CALL_DELETE_SIZED_ALIGNED | INSTRUCTION_UNKNOWN, none, 12, {64});
    expect(12, CALL_DELETE_SIZED, 0, 50, {});
    expect(13, CALL_DELETE_ALIGNED, 1, 0, {4096});
    expect(14, CALL_FREE_ALIGNED_SIZED, 2, 10, {16});
    expect(15, CALL_SET_PROPERTY, none, 0, {1, UINT64_MAX});
    expect(16, CALL_THREAD_IDLE, none, 0, {});
    expect(17, INSTRUCTION_TICK, none, 0, {10, 20, 30, 0});
    expect(18, INSTRUCTION_LOST, none, 0, {3, 1000});
    expect(19, INSTRUCTION_THREAD_CACHE_DELETED, none, 0, {});
    expect(20, INSTRUCTION_THREAD_END, none, 0, {});
    expect(21, INSTRUCTION_FREED_TWICE, none, 0, {});
    expect(22, CALL_FREE_SIZED | INSTRUCTION_UNKNOWN, none, 50, {});
    expect(24, INSTRUCTION_FREE_MISSED, none, 0, {});
    EXPECT_EQ(read.totals.calls, 18u);
    EXPECT_EQ(read.totals.freed_twice, 1u);
    EXPECT_EQ(read.totals.missed_frees, 1u);
    EXPECT_EQ(read.totals.by_kind[CALL_REALLOC_MOVED], 3u);
    EXPECT_EQ(read.totals.by_kind[CALL_FREE], 2u);
    EXPECT_EQ(read.totals.live, 0u);
    EXPECT_EQ(read.totals.registers, 3u);
    EXPECT_EQ(read.totals.lost_events, 1000u);
    EXPECT_EQ(read.live_bytes, 0u);
    EXPECT_EQ(read.peak_live_bytes, 160u);
}

TEST(InstructionReader, RandomStreamsComeBack)
{
    std::mt19937_64 random(12345);
    std::vector<instruction> expected;
    uint64_t bytes = 0, peak = 0;
    std::vector<std::pair<uint32_t, uint64_t>> live;
    std::string stream = written([&](instruction_writer *writer) {
        for (int i = 0; i < 200000; i++) {
            instruction one = {};
            if (live.empty() || random() % 100 < 52) {
                one.size = random() >> (random() % 60 + 4);
                one.opcode = CALL_MALLOC;
                one.object = put_malloc(writer, one.size);
                live.emplace_back(one.object, one.size);
                bytes += one.size;
            } else {
                size_t at = random() % live.size();
                one.opcode = CALL_FREE;
                one.object = live[at].first;
                instruction_put_free(writer, CALL_FREE, one.object);
                bytes -= live[at].second;
                live[at] = live.back();
                live.pop_back();
            }
            peak = std::max(peak, bytes);
            expected.push_back(one);
            if (random() % 5000 == 0) instruction_writer_flush(writer);
        }
    });
    Read read = read_stream(stream);
    ASSERT_EQ(read.state, INSTRUCTIONS_END);
    ASSERT_EQ(read.instructions.size(), expected.size());
    for (size_t i = 0; i < expected.size(); i++)
        ASSERT_EQ(memcmp(&read.instructions[i], &expected[i], sizeof expected[i]), 0) << i;
    EXPECT_EQ(read.live_bytes, bytes);
    EXPECT_EQ(read.peak_live_bytes, peak);
    EXPECT_EQ(read.totals.live, live.size());
}

// Calls in any mixture, among some hundred objects.
class Mixture {
  public:
    explicit Mixture(uint64_t seed) : random_(seed) {}

    void put(instruction_writer *writer, size_t count)
    {
        // How many of 64 are not plain, so that there are steps with none, some and many of them.
        uint64_t others = random_() % 2 ? random_() % 4 : random_() % 64;
        for (size_t i = 0; i < count; i++) {
            instruction one = {};
            if (live_.size() < 40 || (live_.size() < 400 && random_() % 16 < 8))
                begin(writer, &one);
            else if (random_() % 64 >= others)
                end(writer, &one);
            else
                put_other(writer, &one);
            expected.push_back(one);
        }
    }

    std::vector<instruction> expected;

  private:
    uint64_t size() { return random_() % 50 ? random_() % 600 : random_() >> random_() % 60; }

    uint32_t take()
    {
        size_t at = random_() % live_.size();
        uint32_t object = live_[at];
        live_[at] = live_.back();
        live_.pop_back();
        return object;
    }

    void begin(instruction_writer *writer, instruction *one)
    {
        call_kind kind = random_() % 2 ? CALL_MALLOC : CALL_NEW;
        one->opcode = kind;
        one->size = size();
        one->object = instruction_put_allocation(writer, kind, one->size, 0);
        live_.push_back(one->object);
    }

    void end(instruction_writer *writer, instruction *one)
    {
        one->opcode = CALL_FREE;
        one->object = take();
        instruction_put_free(writer, CALL_FREE, one->object);
    }

    void change(instruction_writer *writer, instruction *one)
    {
        call_kind kind = random_() % 2 ? CALL_REALLOC_MOVED : CALL_REALLOC_IN_PLACE;
        one->opcode = kind;
        one->size = size();
        one->object = live_[random_() % live_.size()];
        instruction_put_realloc(writer, kind, one->object, one->size, 0);
    }

    void put_other(instruction_writer *writer, instruction *one)
    {
        one->object = INSTRUCTION_NO_REGISTER;
        switch (random_() % 8) {
        case 0:
        case 1:
        case 2:
            one->size = size();
            one->opcode = CALL_DELETE_SIZED;
            one->object = take();
            instruction_put_free_sized(writer, CALL_DELETE_SIZED, one->object, one->size);
            break;
        case 3:
        case 4: change(writer, one); break;
        case 5:
            one->opcode = INSTRUCTION_TICK;
            instruction_put_tick(writer, 1, 2, 3);
            break;
        case 6:
            one->opcode = CALL_MALLOC | INSTRUCTION_FAILED;
            one->size = size();
            instruction_put_allocation_failed(writer, CALL_MALLOC, one->size, 0);
            break;
        default:
            one->opcode = CALL_FREE | INSTRUCTION_UNKNOWN;
            instruction_put_free_unknown(writer, CALL_FREE, 0, 0);
        }
    }

    std::mt19937_64 random_;
    std::vector<uint32_t> live_;
};

// Changes a byte of some block's payload, and the checksum so that it is right.
void damage(std::string *stream, std::mt19937_64 *random)
{
    std::vector<size_t> blocks;
    for (size_t at = INSTRUCTION_HEADER_BYTES; at < stream->size();
         at += INSTRUCTION_BLOCK_HEADER_BYTES + block_payload_bytes(*stream, at))
        blocks.push_back(at);
    size_t head = blocks[(*random)() % blocks.size()], bytes = block_payload_bytes(*stream, head);
    size_t payload = head + INSTRUCTION_BLOCK_HEADER_BYTES;
    char &byte = (*stream)[payload + (*random)() % bytes];
    byte = static_cast<char>((*random)() % 2 ? (*random)() : byte ^ 1);
    std::string sealed =
        block(bytes_get32(bytes_at(*stream, head + 8)), stream->substr(payload, bytes));
    stream->replace(head, sealed.size(), sealed);
}

TEST(InstructionReader, MixturesComeBack)
{
    std::mt19937_64 random(7);
    const unsigned rounds = static_cast<unsigned>(test_size(30, 100));
    size_t failed = 0;
    for (unsigned round = 0; round < rounds; round++) {
        Mixture mixture(round);
        std::string stream = written([&](instruction_writer *writer) {
            for (unsigned part = 0; part < 4; part++) {
                mixture.put(writer, 1 + random() % 500);
                instruction_writer_flush(writer);
            }
        });
        Read read = read_stream(stream);
        ASSERT_EQ(read.state, INSTRUCTIONS_END) << read.failure.detail;
        ASSERT_EQ(read.instructions.size(), mixture.expected.size());
        for (size_t i = 0; i < mixture.expected.size(); i++) {
            const instruction &one = read.instructions[i], &expected = mixture.expected[i];
            ASSERT_EQ(one.opcode, expected.opcode) << i;
            ASSERT_EQ(one.object, expected.object) << i;
            ASSERT_EQ(one.size, expected.size) << i;
        }
        // A mistake that only a reader who looks at every instruction can find.
        for (unsigned i = 0; i < 20; i++) {
            std::string damaged = stream;
            damage(&damaged, &random);
            failed += read_stream(damaged).state != INSTRUCTIONS_END;
        }
    }
    EXPECT_GT(failed, rounds * 15u);
}

TEST(InstructionReader, Addresses)
{
    Read read = read_stream(written(
        [](instruction_writer *writer) {
            uint32_t a = instruction_put_allocation(writer, CALL_MALLOC, 10, 0x7f0000001008);
            instruction_put_allocation_failed(writer, CALL_MALLOC, 10, 0);
            instruction_put_realloc(writer, CALL_REALLOC_MOVED, a, 20, 0x555000000010);
            instruction_put_realloc_failed(writer, a, 20);
            instruction_put_free(writer, CALL_FREE, a);
            instruction_writer_flush(writer);
            instruction_put_realloc_unknown(writer, CALL_REALLOC_MOVED, 5, 0x7f0000001008);
            instruction_put_allocation_with(writer, CALL_MEMALIGN, 5, 64, 0xfffffffffffffff8);
        },
        INSTRUCTION_FEATURE_ADDRESSES));
    ASSERT_EQ(read.state, INSTRUCTIONS_END);
    EXPECT_EQ(read.addresses, (std::vector<uint64_t>{0x7f0000001008, 0, 0x555000000010, 0, 0,
                                                     0x7f0000001008, 0xfffffffffffffff8}));
}

// What a touched instruction says is of the call directly behind it, and of no later one.
TEST(InstructionReader, TouchedBelongsToTheNextCall)
{
    const uint64_t runs[] = {0, 1, 100, 2};
    const std::string stream = written([&](instruction_writer *writer) {
        instruction_put_touched_runs(writer, runs, 2);
        instruction_put_allocation_with(writer, CALL_MALLOC, 1000000, 0, 0);
        instruction_put_touched_runs(writer, runs, 1);
        instruction_put_allocation_with(writer, CALL_MALLOC, 24, 0, 0);
        instruction_put_allocation_with(writer, CALL_MALLOC, 1000000, 0, 0);
    });
    Memory memory(stream);
    input in;
    instruction_reader reader;
    instruction_batch batch;
    instruction one;
    std::vector<size_t> counts;
    input_open_fd(&in, memory.fd());
    ASSERT_TRUE(instruction_reader_open(&reader, &in));
    instruction_reader_use_indices(&reader); // without records of what is plain
    ASSERT_TRUE(instruction_reader_next(&reader, &batch));
    instruction_walk walk = instruction_walk_over(&batch, batch.count);
    while (instruction_walk_next(&walk, &one)) {
        const uint64_t *found = nullptr;
        if (one.opcode != CALL_MALLOC) continue;
        counts.push_back(instruction_walk_touched(&walk, &one, &found));
        if (counts.back() > 0) {
            EXPECT_TRUE(std::equal(runs, runs + 2 * counts.back(), found));
        }
    }
    EXPECT_EQ(counts, (std::vector<size_t>{2, 0, 0}));
    instruction_reader_close(&reader);
    input_close(&in);
}

TEST(InstructionReader, LongFormsOfIntegersAreRead)
{
    std::string nine("\x00\x18\x00\x00\x00\x00\x00\x00\x00", 9), two("\x02\x00", 2);
    std::string payload = payload_of(0, 24, "\x01\x15\xff\xff\xff\xff", nine + two);
    Read read = read_stream(header_of() + block(2, payload) + end_of(0, 1, {{1, 1}, {21, 1}}));
    ASSERT_EQ(read.state, INSTRUCTIONS_END) << read.error_name();
    EXPECT_EQ(read.instructions[0].size, 24u);
    EXPECT_EQ(read.instructions[1].object, 0u);
}

TEST(InstructionReader, ValuesOnBothSidesOfTheirColumns)
{
    // Sizes around what fits, alone and among others; then positions, among 70 000 objects.
    const std::vector<uint64_t> sizes = {0,     254,        255,        256,
                                         4094,  4095,       4096,       65534,
                                         65535, 4294967294, 4294967295, UINT64_C(1) << 40};
    for (uint64_t usual : {0, 254, 4094, 65534}) {
        const size_t plenty = usual == 0 ? 0 : 1000;
        std::vector<uint64_t> all(plenty, usual);
        all.insert(all.end(), sizes.begin(), sizes.end());
        all.insert(all.end(), plenty, usual);
        Read read = read_stream(written([&](instruction_writer *writer) {
            for (uint64_t size : all)
                put_malloc(writer, size);
        }));
        ASSERT_EQ(read.state, INSTRUCTIONS_END);
        for (size_t i = 0; i < all.size(); i++)
            EXPECT_EQ(read.instructions[i].size, all[i]);
    }
    Read read = read_stream(written([&](instruction_writer *writer) {
        for (unsigned i = 0; i < 70000; i++)
            put_malloc(writer, 8);
        for (uint32_t object : {0u, 1u, 69745u, 69744u, 69743u, 4463u, 4462u, 4461u})
            instruction_put_free(writer, CALL_FREE, object);
        instruction_put_realloc(writer, CALL_REALLOC_MOVED, 5, 16, 0);
    }));
    ASSERT_EQ(read.state, INSTRUCTIONS_END);
    std::vector<uint32_t> ended;
    for (size_t i = 70000; i < read.instructions.size(); i++)
        ended.push_back(read.instructions[i].object);
    EXPECT_EQ(ended, (std::vector<uint32_t>{0, 1, 69745, 69744, 69743, 4463, 4462, 4461, 5}));
}

TEST(InstructionReader, CutAnywhere)
{
    std::string stream = written([](instruction_writer *writer) {
        put_everything(writer);
        instruction_writer_flush(writer);
        put_everything(writer);
    });
    for (size_t bytes = 0; bytes < stream.size(); bytes++) {
        Read read = read_stream(stream.substr(0, bytes));
        EXPECT_EQ(read.state, bytes == 0 ? INSTRUCTIONS_FAILED : INSTRUCTIONS_CUT) << bytes;
        EXPECT_EQ(read.error_name(), bytes == 0 ? "instructions_magic" : "instructions_cut");
        EXPECT_EQ(read.totals.instructions, read.instructions.size());
    }
    EXPECT_EQ(read_stream(stream).state, INSTRUCTIONS_END);
}

TEST(InstructionReader, EveryFlippedBitIsNoticed)
{
    // Bits of the minor version, of the info bits and of nothing else may change without harm: the
    // checksum notices those too.
    std::string stream = written(put_everything, 0, "program=x\n");
    for (size_t bit = 0; bit < stream.size() * 8; bit++) {
        std::string damaged = stream;
        damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
        Read read = read_stream(damaged);
        EXPECT_NE(read.state, INSTRUCTIONS_END) << "bit " << bit;
        EXPECT_NE(read.error_name(), "") << "bit " << bit;
    }
}

TEST(InstructionReader, DamageInLz4IsNoticed)
{
    // By the checksums of blocks. Those of LZ4, in the last four bytes here, are left out.
    std::string stream = written(put_everything);
    LZ4F_preferences_t preferences = {};
    preferences.frameInfo.contentChecksumFlag = LZ4F_contentChecksumEnabled;
    std::string packed(LZ4F_compressFrameBound(stream.size(), &preferences), '\0');
    packed.resize(
        LZ4F_compressFrame(&packed[0], packed.size(), stream.data(), stream.size(), &preferences));
    Read whole = read_stream(packed);
    EXPECT_EQ(whole.state, INSTRUCTIONS_END);
    for (size_t bit = 0; bit < packed.size() * 8; bit++) {
        std::string damaged = packed;
        damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
        Read read = read_stream(damaged);
        if (read.state == INSTRUCTIONS_END)
            expect_same(read, whole);
        else
            EXPECT_LT(bit / 8, packed.size() - 4);
    }
}

TEST(InstructionReader, DamageBehindGoodChecksumsIsHarmless)
{
    // Random columns under a right checksum: any error is right, a crash is not.
    std::mt19937_64 random(99);
    auto some = [&random](size_t most) {
        std::string bytes;
        for (size_t left = random() % most; left > 0; left--)
            bytes += static_cast<char>(random() % 3 ? random() % 8 : random());
        return bytes;
    };
    for (int round = 0, rounds = test_size(1500, 5000); round < rounds; round++) {
        static const char likely[] = "\x01\x15\x01\x15\x08\x12\x1f\x30\x34";
        std::string columns, operands = some(60), addresses = some(20);
        size_t count = 1 + random() % 40;
        for (size_t i = 0; i < count; i++)
            columns += random() % 4 ? likely[random() % 9] : static_cast<char>(random());
        for (size_t i = 0; i < 2 * count; i++)
            columns += static_cast<char>(random() % 3 ? random() % 8 : random());
        if (random() % 16 == 0) columns.resize(random() % columns.size());
        std::string stream =
            header_of(random() % 2) +
            block(static_cast<uint32_t>(count), payload_of(0, 0, columns, operands, addresses));
        Read read = read_stream(stream + stream.substr(INSTRUCTION_HEADER_BYTES));
        EXPECT_NE(read.state, INSTRUCTIONS_END);
    }
}

TEST(InstructionReader, FullBlockOfLargeValuesOverrunsItsColumn)
{
    std::string opcodes(INSTRUCTION_BLOCK_MAX, '\x01'), ones(INSTRUCTION_BLOCK_MAX, '\xff');
    Read read =
        read_stream(header_of() + block(INSTRUCTION_BLOCK_MAX,
                                        payload_of(0, 0, opcodes + ones + ones, number(1))));
    EXPECT_EQ(read.error_name(), "instructions_columns");
}

TEST(InstructionReader, LiveBytesAreCompared)
{
    auto error_of = [](const Block &block) {
        Read read = read_stream(header_of() + block_of(block) + end_of(0, 1, {{1, 1}, {21, 1}}));
        return read.state == INSTRUCTIONS_END ? "" : read.error_name();
    };
    std::string tick = number(1) + number(2) + number(3);
    EXPECT_EQ(error_of({"\x01\x34\x15", {24}, 0, 24, tick + number(24)}), "");
    const std::string expected = "instructions_totals";
    EXPECT_EQ(error_of({"\x01\x34\x15", {24}, 1, 24, tick + number(24)}), expected);
    EXPECT_EQ(error_of({"\x01\x34\x15", {24}, 0, 25, tick + number(24)}), expected);
    EXPECT_EQ(error_of({"\x01\x34\x15", {24}, 0, 24, tick + number(0)}), expected);
    // Those of a block that is refused do not count.
    Read read = read_stream(header_of() + block_of({"\x01\x15\x01", {24, 0, 8}, 8, 24}) +
                            block_of({"\x01", {1}, 8, 9}));
    EXPECT_EQ(read.error_name(), expected);
    EXPECT_EQ(read.live_bytes, 8u);
    EXPECT_EQ(read.peak_live_bytes, 24u);
}

TEST(InstructionReader, WrongTotals)
{
    std::string one = header_of() + block_of({"\x01", {24}, 24, 24});
    EXPECT_EQ(read_stream(one + end_of(1, 1, {{1, 1}})).state, INSTRUCTIONS_END);
    for (const std::string &end :
         {end_of(0, 1, {{1, 1}}), end_of(1, 2, {{1, 1}}), end_of(1, 1, {{1, 2}}), end_of(1, 1, {}),
          end_of(1, 1, {{1, 1}, {2, 1}})})
        EXPECT_EQ(read_stream(one + end).error_name(), "instructions_totals");
    EXPECT_EQ(read_stream(one + end_of(1, 1, {{1, 1}, {46, 1}})).error_name(),
              "instructions_operand");
    EXPECT_EQ(read_stream(one + block(0, number(0))).error_name(), "instructions_columns");
    EXPECT_EQ(read_stream(one + end_of(1, 1, {{1, 1}}) + "x").error_name(),
              "instructions_trailing");
}

TEST(InstructionReader, UndefinedOpcodes)
{
    for (unsigned opcode = 0; opcode < 256; opcode++) {
        unsigned number_of = opcode & INSTRUCTION_NUMBER_MASK, flags = opcode & 0xc0;
        uint8_t shape = call_shapes[number_of];
        bool allocation = shape == SHAPE_ALLOCATION || shape == SHAPE_ALLOCATION_ALIGNED;
        bool freeing = shape >= SHAPE_FREE && shape <= SHAPE_FREE_SIZED_ALIGNED;
        bool defined =
            shape != SHAPE_UNDEFINED || (number_of >= 48 && number_of <= INSTRUCTION_LAST);
        bool allowed = flags == 0 || (allocation && flags == INSTRUCTION_FAILED) ||
                       (freeing && flags == INSTRUCTION_UNKNOWN) ||
                       (shape == SHAPE_REALLOC && flags == INSTRUCTION_UNKNOWN) ||
                       number_of == CALL_REALLOC_MOVED;
        Read read =
            read_stream(header_of() + block_of({std::string(1, static_cast<char>(opcode))}));
        EXPECT_EQ(read.error_name() == "instructions_opcode", !(defined && allowed)) << opcode;
    }
}

TEST(InstructionReader, PositionsWithoutAnObject)
{
    auto error_of = [](const std::string &blocks) {
        return read_stream(header_of() + blocks).error_name();
    };
    const std::string expected = "instructions_position";
    EXPECT_EQ(error_of(block_of({"\x15", {0}})), expected);
    EXPECT_EQ(error_of(block_of({"\x01\x15", {8, 1}})), expected);
    EXPECT_EQ(error_of(block_of({"\x01\x15", {8, UINT64_C(1) << 32}})), expected);
    EXPECT_EQ(error_of(block_of({"\x01\x15\x15", {8, 0, 0}})), expected);
    EXPECT_EQ(error_of(block_of({"\x01\x12", {8, 1}, 0, 0, number(9)})), expected);
    EXPECT_EQ(error_of(block_of({"\x01\x52", {8, 1}, 0, 0, number(9)})), expected);
    // In a row of plain instructions, wherever it stands: the position next to the last one, and
    // one more.
    for (size_t allocations = 1; allocations < 50; allocations++)
        for (size_t frees = 0; frees < allocations; frees++)
            for (uint64_t beyond : {0, 1}) {
                std::string opcodes =
                    std::string(allocations, '\x01') + std::string(frees + 1, '\x15');
                std::vector<uint64_t> values(allocations + frees, 0);
                values.push_back(allocations - frees - 1 + beyond);
                std::string name = error_of(block_of({opcodes + "\x01\x01", values}));
                EXPECT_EQ(name, beyond ? expected : "instructions_cut")
                    << allocations << " " << frees;
            }
    // Said with the position: the second block, its second instruction, the fourth in the stream.
    std::string good = header_of() + block_of({"\x01\x01", {8, 8}, 16, 16});
    Read read = read_stream(good + block_of({"\x15\x15", {1, 1}}));
    char text[512];
    EXPECT_EQ(std::string(error_text(&read.failure, text, sizeof text)),
              "offset 0x3d: a position without a live object (INSTRUCTIONS.md 4.5): instruction 3: "
              "position 1");
    EXPECT_EQ(read.instructions.size(), 2u);
    EXPECT_EQ(read.totals.live, 2u);
}

TEST(InstructionReader, OperandsOutOfRange)
{
    const std::string expected = "instructions_operand";
    auto error_of = [](const Block &block) {
        return read_stream(header_of() + block_of(block)).error_name();
    };
    EXPECT_EQ(error_of({"\x30", {}, 0, 0, number(65536)}), expected);
    EXPECT_EQ(error_of({"\x25", {}, 0, 0, number(3)}), expected);
    EXPECT_EQ(error_of({"\x01", {UINT64_MAX}}), expected);
    // A value where there is none: of a lane, a heap call, an unknown free.
    EXPECT_EQ(error_of({"\x30", {1}, 0, 0, number(1)}), expected);
    EXPECT_EQ(error_of({"\x26", {1}, 0, 0, number(0)}), expected);
    EXPECT_EQ(error_of({"\x95", {1}}), expected);
}

TEST(InstructionReader, LargePositionsAtTheEnd)
{
    // Of 70 000 objects the oldest one, and one more, by calls that are taken in different ways.
    const size_t objects = 70000;
    std::string allocations;
    for (size_t left = objects; left > 0;) {
        const size_t count = std::min<size_t>(left, INSTRUCTION_BLOCK_MAX);
        allocations += block_of({std::string(count, '\x01'), std::vector<uint64_t>(count, 1),
                                 objects - left + count, objects - left + count});
        left -= count;
    }
    for (char opcode : {'\x15', '\x12', '\x1c'}) {
        const std::string size = opcode == '\x15' ? "" : number(1);
        const bool dies = opcode != '\x12';
        for (uint64_t beyond : {0, 1}) {
            Block last = {std::string(40, '\x01') + opcode, std::vector<uint64_t>(40, 1)};
            last.values.push_back(objects + 40 - 1 + beyond);
            last.live_bytes = objects + 40 - dies;
            last.peak_bytes = objects + 40;
            last.operands = size;
            Read read = read_stream(header_of() + allocations + block_of(last));
            EXPECT_EQ(read.error_name(), beyond ? "instructions_position" : "instructions_cut");
        }
    }
}

TEST(InstructionReader, LargeValuesInRowsOfInstructions)
{
    // Behind 40 allocations, a large allocation and one more instruction, wherever it stands among
    // plain ones: a free or a realloc of a large position, a size that no object has, a size that
    // is missing.
    auto error_of = [](size_t before, char opcode, uint64_t value, const std::string &sizes) {
        std::string opcodes(40, '\x01');
        std::vector<uint64_t> values(40, 8);
        opcodes += '\x01' + std::string(before, '\x15') + opcode + std::string(20, '\x15');
        values.push_back(100000);
        values.resize(values.size() + before, 0);
        values.push_back(value);
        Read read = read_stream(header_of() + block_of({opcodes, values, 0, 0, sizes}));
        return read.error_name() + strchr(read.failure.detail, ' ');
    };
    for (size_t before = 0; before < 20; before++) {
        std::string at = " " + std::to_string(41 + before);
        EXPECT_EQ(error_of(before, '\x15', 70000, ""),
                  "instructions_position" + at + ": position 70000");
        EXPECT_EQ(error_of(before, '\x12', 70000, number(1)),
                  "instructions_position" + at + ": position 70000");
        EXPECT_EQ(error_of(before, '\x1c', 70000, number(1)),
                  "instructions_position" + at + ": position 70000");
        EXPECT_EQ(error_of(before, '\x01', UINT64_MAX, ""),
                  "instructions_operand" + at + ": size 18446744073709551615");
        EXPECT_EQ(error_of(before, '\x12', 0, number(UINT64_MAX)),
                  "instructions_operand" + at + ": size 18446744073709551615");
        EXPECT_EQ(error_of(before, '\x12', 0, ""), "instructions_columns" + at);
        EXPECT_EQ(error_of(before, '\x1c', 0, ""), "instructions_columns" + at);
        /* The size that a free was given may be any. */
        EXPECT_EQ(error_of(before, '\x1c', 0, number(UINT64_MAX)).find("instructions_totals"), 0u);
    }
}

TEST(InstructionReader, ColumnsThatDoNotMatch)
{
    const std::string expected = "instructions_columns";
    auto error_of = [](uint32_t count, const std::string &columns, const std::string &operands = "",
                       const std::string &addresses = "") {
        return read_stream(header_of() +
                           block(count, payload_of(0, 0, columns, operands, addresses)))
            .error_name();
    };
    const std::string one("\x01\0\0", 3), large = "\x01\xff\xff";
    EXPECT_EQ(error_of(1, one), "instructions_cut"); // nothing is wrong
    EXPECT_EQ(error_of(1, one.substr(0, 2)), expected);
    EXPECT_EQ(error_of(2, one), expected);
    EXPECT_EQ(error_of(1, one, number(1)), expected);
    EXPECT_EQ(error_of(1, one, "", number(1)), expected); // no addresses are announced
    EXPECT_EQ(error_of(1, large), expected);
    EXPECT_EQ(error_of(1, large, "\x02"), expected);
    EXPECT_EQ(error_of(1, large, number(1) + number(1)), expected);
    auto payload_error = [](const std::string &payload) {
        return read_stream(header_of() + block(1, payload)).error_name();
    };
    EXPECT_EQ(payload_error(number(0) + number(0)), expected);
    EXPECT_EQ(payload_error(number(0) + number(0) + "\x02"), expected);
    EXPECT_EQ(payload_error(number(0) + number(0) + number(1) + one), expected);
    EXPECT_EQ(payload_error(number(0) + number(0) + number(UINT64_MAX) + one), expected);
    // Said with the instruction.
    Read read =
        read_stream(header_of() + block_of({"\x01\x01\x12\x01", {8, 8, 0, 8}, 0, 0, "\x02"}));
    EXPECT_EQ(read.error_name() + " " + read.failure.detail, expected + " instruction 2");
}

TEST(InstructionReader, LimitsAndHeaders)
{
    std::string header = header_of();
    std::string big =
        header + "MTBI" + fixed32(INSTRUCTION_BLOCK_PAYLOAD_MAX + 1) + fixed32(1) + fixed32(0);
    EXPECT_EQ(read_stream(big).error_name(), "instructions_limit");
    std::string many =
        header + "MTBI" + fixed32(10) + fixed32(INSTRUCTION_BLOCK_MAX + 1) + fixed32(0);
    EXPECT_EQ(read_stream(many).error_name(), "instructions_limit");
    EXPECT_EQ(read_stream(header + std::string(16, 'x')).error_name(), "instructions_block_magic");
    std::string other = header;
    other[8] = 1;
    EXPECT_EQ(read_stream(other).error_name(), "instructions_version");
    other = header;
    other[17] = 1;
    Read read = read_stream(other);
    EXPECT_EQ(read.error_name(), "instructions_feature");
    EXPECT_STREQ(read.failure.detail, "bit 8");
    EXPECT_EQ(read_stream("MTAPERAW" + header.substr(8)).error_name(), "instructions_magic");
}

} // namespace
