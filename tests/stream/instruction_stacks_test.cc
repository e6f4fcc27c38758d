/* Call stacks in the instruction stream (INSTRUCTIONS.md 4.6). */
#include <gtest/gtest.h>

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "common/bytes.h"
#include "common/input.h"
#include "common/output.h"
#include "stream/checksum.h"
#include "stream/instruction_reader.h"
#include "stream/instruction_writer.h"
#include "stream/stacks.h"

namespace {

std::string written(const std::function<void(instruction_writer *)> &put,
                    uint64_t features = INSTRUCTION_FEATURE_STACKS)
{
    int fd = memfd_create("stream", MFD_CLOEXEC);
    output out;
    instruction_writer writer;
    instruction_header header = {};
    header.features = features;
    EXPECT_TRUE(output_open_fd(&out, fd));
    EXPECT_TRUE(instruction_writer_open(&writer, &out, &header));
    put(&writer);
    EXPECT_TRUE(instruction_writer_finish(&writer, INSTRUCTION_STATUS_COMPLETE));
    instruction_writer_close(&writer);
    EXPECT_TRUE(output_close(&out));
    std::string all(static_cast<size_t>(lseek(fd, 0, SEEK_END)), '\0');
    EXPECT_EQ(pread(fd, &all[0], all.size(), 0), static_cast<ssize_t>(all.size()));
    close(fd);
    return all;
}

struct Read {
    std::vector<uint32_t> stacks; /* of each instruction */
    std::vector<uint64_t> addresses;
    std::vector<stack_definition> definitions;
    size_t instructions = 0;
    instruction_state state;
    std::string failure, detail;
};

/* `wants` stacks; `takes` definitions until one is wrong. */
Read read_stream(const std::string &bytes, bool wants = true, size_t takes = SIZE_MAX)
{
    struct Context {
        Read read;
        size_t takes;
    } context = {{}, takes};
    Read &read = context.read;
    int fd = memfd_create("stream", MFD_CLOEXEC);
    EXPECT_EQ(write(fd, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    lseek(fd, 0, SEEK_SET);
    input in;
    instruction_reader reader;
    instruction_batch batch;
    input_open_fd(&in, fd);
    if (instruction_reader_open(&reader, &in)) {
        reader.define_context = &context;
        if (wants)
            reader.define = [](void *at, const stack_definition *definition) {
                Context *to = static_cast<Context *>(at);
                to->read.definitions.push_back(*definition);
                return to->read.definitions.size() > to->takes ? "too much" : nullptr;
            };
        while (instruction_reader_next(&reader, &batch)) {
            read.instructions += batch.count;
            EXPECT_EQ(batch.stacks != nullptr,
                      wants && (reader.header.features & INSTRUCTION_FEATURE_STACKS));
            for (size_t i = 0; i < batch.count; i++) {
                if (batch.stacks) read.stacks.push_back(batch.stacks[i]);
                if (batch.addresses) read.addresses.push_back(batch.addresses[i]);
            }
        }
    }
    read.state = reader.state;
    read.failure = reader.error.kind == nullptr ? "" : reader.error.kind->name;
    read.detail = reader.error.detail;
    instruction_reader_close(&reader);
    input_close(&in);
    close(fd);
    return read;
}

stack_definition define(uint32_t what, uint32_t number, uint32_t count = 0, uint32_t of = 0)
{
    stack_definition made = {};
    made.what = what, made.number = number, made.count = count, made.of = of;
    return made;
}

/* Those of FORMAT.md 5.8. */
std::vector<stack_definition> example()
{
    stack_definition module = define(STACK_MODULE, 1), path = define(STACK_TEXT, 1, 0, STACK_PATH),
                     codes = define(STACK_CODES, 1, 2, 1),
                     nodes = define(STACK_NODES, 8, 2, STACK_END);
    module.start = module.bias = 0x10000, module.end = 0x12000;
    path.length = 6, memcpy(path.piece, "/bin/a", 6);
    codes.offsets[0] = 0x100, codes.offsets[1] = 0x180;
    nodes.codes[0] = 2, nodes.codes[1] = 1;
    return {module, path, codes, nodes};
}

void put_example(instruction_writer *writer)
{
    for (const stack_definition &definition : example())
        instruction_put_definition(writer, &definition);
    instruction_put_stack(writer, 9);
    instruction_put_allocation(writer, CALL_MALLOC, 24, 0);
}

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

std::string block(const char *magic, uint32_t count, const std::string &payload)
{
    std::string head(12, '\0');
    memcpy(&head[0], magic, 4);
    bytes_put32(reinterpret_cast<uint8_t *>(&head[4]), static_cast<uint32_t>(payload.size()));
    bytes_put32(reinterpret_cast<uint8_t *>(&head[8]), count);
    uint8_t sum[4];
    bytes_put32(sum,
                checksum_of_two(reinterpret_cast<const uint8_t *>(head.data()), 12,
                                reinterpret_cast<const uint8_t *>(payload.data()), payload.size()));
    return head + std::string(sum, sum + 4) + payload;
}

TEST(InstructionStacks, ExampleOfTheDocument)
{
    std::string stream = written(put_example);
    std::string definitions = block("MTBS", 4, stream.substr(36 + 16, 32)),
                call = block("MTBI", 1, stream.substr(36 + 16 + 32 + 16, 8));
    EXPECT_EQ(stream.substr(36, definitions.size() + call.size()), definitions + call);
    EXPECT_EQ(hex(definitions.substr(16)), "03030400080280040008"
                                           "07030d012f62696e2f61"
                                           "29030302080204"
                                           "2b11010503");
    EXPECT_EQ(hex(call.substr(16)), "313101010118"
                                    "0013");
}

void expect_definition(const stack_definition &read, const stack_definition &wanted)
{
    EXPECT_EQ(read.what, wanted.what);
    EXPECT_EQ(read.number, wanted.number);
    EXPECT_EQ(read.count, wanted.count);
    EXPECT_EQ(read.of, wanted.of);
    EXPECT_EQ(read.start, wanted.start);
    EXPECT_EQ(read.end, wanted.end);
    EXPECT_EQ(read.bias, wanted.bias);
    EXPECT_EQ(read.length, wanted.length);
    EXPECT_EQ(read.offset, wanted.offset);
    EXPECT_EQ(memcmp(read.piece, wanted.piece, sizeof read.piece), 0);
}

/* Of allocations and reallocs that did not fail, beside addresses or alone. */
TEST(InstructionStacks, ComeBackWithTheirCalls)
{
    for (uint64_t features : {uint64_t{0}, uint64_t{INSTRUCTION_FEATURE_ADDRESSES}}) {
        std::string stream = written(
            [](instruction_writer *writer) {
                put_example(writer);
                uint32_t object = instruction_put_allocation(writer, CALL_MALLOC, 70000, 16);
                instruction_put_allocation_failed(writer, CALL_MALLOC, 10, 0);
                instruction_put_stack(writer, STACK_NUMBERS_LIMIT - 1);
                instruction_put_realloc(writer, CALL_REALLOC_MOVED, object, 20, 32);
                instruction_put_free(writer, CALL_FREE, object);
                instruction_writer_flush(writer);
                instruction_put_stack(writer, 8);
                instruction_put_realloc_unknown(writer, CALL_REALLOC_MOVED, 5, 64);
                instruction_put_stack(writer, STACK_CUT_BY_CODE);
                instruction_put_allocation_with(writer, CALL_MEMALIGN, 5, 64, 128);
            },
            features | INSTRUCTION_FEATURE_STACKS);
        Read read = read_stream(stream);
        ASSERT_EQ(read.state, INSTRUCTIONS_END) << read.detail;
        EXPECT_EQ(read.stacks, (std::vector<uint32_t>{9, 0, 0, STACK_NUMBERS_LIMIT - 1, 0, 8,
                                                      STACK_CUT_BY_CODE}));
        const std::vector<uint64_t> addresses = {0, 16, 0, 32, 0, 64, 128};
        EXPECT_EQ(read.addresses, features == 0 ? std::vector<uint64_t>() : addresses);
        ASSERT_EQ(read.definitions.size(), 4u);
        for (size_t i = 0; i < 4; i++)
            expect_definition(read.definitions[i], example()[i]);
        Read without = read_stream(stream, false);
        EXPECT_EQ(without.state, INSTRUCTIONS_END);
        EXPECT_EQ(without.instructions, 7u);
        EXPECT_EQ(without.addresses, read.addresses);
    }
}

TEST(InstructionStacks, AnyNumberOfTheLongestDefinitions)
{
    stack_definition text = define(STACK_TEXT, STACK_NUMBERS_LIMIT - 1, 0, STACK_CODE_TEXT);
    text.length = STACK_TEXT_BYTES_MAX;
    text.offset = STACK_TEXT_BYTES_MAX / STACK_PIECE_BYTES * STACK_PIECE_BYTES - STACK_PIECE_BYTES;
    stack_definition codes =
        define(STACK_CODES, STACK_NUMBERS_LIMIT - STACK_CODES_MAX, STACK_CODES_MAX, 65535);
    stack_definition nodes = define(STACK_NODES, STACK_NUMBERS_LIMIT - STACK_NODES_MAX,
                                    STACK_NODES_MAX, STACK_NUMBERS_LIMIT / 2);
    stack_definition module = define(STACK_MODULE, 65535);
    module.end = UINT64_MAX, module.bias = UINT64_MAX;
    for (uint32_t i = 0; i < STACK_CODES_MAX; i++)
        codes.offsets[i] = i % 2 ? 0 : STACK_OFFSETS_LIMIT - 1;
    for (uint32_t &code : nodes.codes)
        code = STACK_NUMBERS_LIMIT - 1;
    for (const stack_definition &one : {text, codes, nodes, module}) {
        const size_t many = 2 * INSTRUCTION_DEFINITIONS_MAX + 7;
        std::string stream = written([&](instruction_writer *writer) {
            for (size_t i = 0; i < many; i++) {
                instruction_put_definition(writer, &one);
                if (i % 1000 == 0) instruction_put_allocation(writer, CALL_MALLOC, 1, 0);
            }
        });
        Read read = read_stream(stream);
        EXPECT_EQ(read.state, INSTRUCTIONS_END) << read.detail;
        EXPECT_EQ(read.instructions, many / 1000 + 1);
        ASSERT_EQ(read.definitions.size(), many);
        expect_definition(read.definitions[0], one);
        expect_definition(read.definitions[many - 1], one);
    }
}

TEST(InstructionStacks, FullBlocks)
{
    const size_t many = 2 * INSTRUCTION_BLOCK_MAX + 5;
    Read read = read_stream(written(
        [](instruction_writer *writer) {
            for (size_t i = 0; i < many; i++) {
                instruction_put_stack(writer, STACK_NUMBERS_LIMIT - 1);
                instruction_put_allocation_with(writer, CALL_MEMALIGN, UINT64_MAX / 2, UINT64_MAX,
                                                i % 2 ? UINT64_MAX - 7 : 0);
            }
        },
        INSTRUCTION_FEATURE_STACKS | INSTRUCTION_FEATURE_ADDRESSES));
    EXPECT_EQ(read.state, INSTRUCTIONS_END) << read.failure << read.detail;
    EXPECT_EQ(read.stacks, std::vector<uint32_t>(many, STACK_NUMBERS_LIMIT - 1));
}

TEST(InstructionStacks, FreesHaveThemIfTheStreamSaysSo)
{
    auto put = [](instruction_writer *writer) {
        instruction_put_stack(writer, 9);
        const uint32_t one = instruction_put_allocation(writer, CALL_MALLOC, 24, 0);
        const uint32_t other = instruction_put_allocation(writer, CALL_MALLOC, 25, 0);
        instruction_put_stack(writer, 10);
        instruction_put_free(writer, CALL_FREE, one);
        instruction_put_free_sized(writer, CALL_FREE_SIZED, other, 25);
        instruction_put_stack(writer, 11);
        instruction_put_free_unknown(writer, CALL_FREE, 0, 0);
        instruction_put_stack(writer, 12);
        instruction_put_allocation(writer, CALL_MALLOC, 26, 0);
    };
    Read read =
        read_stream(written(put, INSTRUCTION_FEATURE_STACKS | INSTRUCTION_FEATURE_FREE_STACKS));
    EXPECT_EQ(read.failure, "");
    EXPECT_EQ(read.stacks, (std::vector<uint32_t>{9, 0, 10, 0, 11, 12}));
}

/* Nothing but the feature bit makes room for stacks. */
TEST(InstructionStacks, StreamsWithoutAreAsTheyWere)
{
    const auto put = [](instruction_writer *writer) {
        instruction_put_stack(writer, 9);
        instruction_put_allocation(writer, CALL_MALLOC, 24, 0);
    };
    std::string stream = written(put, 0);
    EXPECT_EQ(hex(stream.substr(36 + 16, 6)), "313101011800");
    EXPECT_EQ(bytes_get32(reinterpret_cast<const uint8_t *>(&stream[36 + 4])), 6u);
    std::string with = stream.substr(0, 36) + block("MTBS", 1, "\x05\x03") + stream.substr(36);
    EXPECT_EQ(read_stream(with).failure, "instructions_block_magic");
}

TEST(InstructionStacks, DamageIsNamed)
{
    std::string header = written([](instruction_writer *) {}).substr(0, 36);
    const auto failure = [&](uint32_t count, const std::string &payload) {
        Read read = read_stream(header + block("MTBS", count, payload));
        return read.failure + ": " + read.detail;
    };
    const std::string unloaded("\x05\x03", 2), limits = ": outside of its limits";
    const std::string what = "instructions_definition: definition ";
    EXPECT_EQ(failure(1, unloaded), "instructions_cut: after 0 instructions");
    EXPECT_EQ(failure(0, ""), what + "0: the count is wrong");
    EXPECT_EQ(failure(1, unloaded + unloaded), what + "1: the count is wrong");
    EXPECT_EQ(failure(2, unloaded), what + "2" + limits);
    EXPECT_EQ(failure(1, std::string("\x05\x01", 2)), what + "1" + limits) << "module 0";
    EXPECT_EQ(failure(1, std::string("\x15\x03", 2)), what + "1" + limits) << "m of unloaded";
    EXPECT_EQ(failure(1, std::string("\x0d\x03", 2)), what + "1" + limits) << "what 6";
    EXPECT_EQ(failure(1, std::string("\x1b\x11\x11\x05", 4)), what + "1" + limits)
        << "its own parent";
    EXPECT_EQ(failure(1, std::string("\x1b\x11\x01\x01", 4)), what + "1" + limits) << "code 0";
    EXPECT_EQ(failure(INSTRUCTION_DEFINITIONS_MAX + 1, ""), "instructions_limit: ");
    Read refused = read_stream(header + block("MTBS", 2, unloaded + unloaded), true, 1);
    EXPECT_EQ(refused.detail, "definition 2: too much");

    const auto columns = [&](const std::string &payload) {
        return read_stream(header + block("MTBI", 1, payload)).failure;
    };
    const std::string plain("\x31\x31\x01\x01\x01\x18\x00", 7);
    EXPECT_EQ(columns(plain + "\x13"), "instructions_cut");
    EXPECT_EQ(columns(plain), "instructions_columns");
    EXPECT_EQ(columns(plain + "\x13\x13"), "instructions_columns");
    EXPECT_EQ(columns(plain + std::string("\x10\x00\x00\x00\x20", 5)), "instructions_operand")
        << "node 2^28";
    EXPECT_EQ(columns(std::string("\x31\x31\x01\x05\x01\x18\x00\x13", 8)), "instructions_columns")
        << "addresses are longer than the payload";
}

TEST(InstructionStacks, EveryFlippedBitIsNoticed)
{
    std::string stream = written(put_example);
    for (size_t bit = 0; bit < stream.size() * 8; bit++) {
        std::string damaged = stream;
        damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
        EXPECT_NE(read_stream(damaged).state, INSTRUCTIONS_END) << "bit " << bit;
    }
}

/* Any error is right, a crash is not. */
TEST(InstructionStacks, DamageBehindGoodChecksumsIsHarmless)
{
    std::mt19937_64 random(7);
    std::string header = written([](instruction_writer *) {}).substr(0, 36);
    std::string good = written(put_example).substr(36 + 16, 32);
    for (int round = 0; round < 2000; round++) {
        std::string payload = good;
        for (uint64_t i = random() % 4 + 1; i > 0; i--)
            payload[random() % payload.size()] = static_cast<char>(random());
        payload.resize(random() % 4 ? payload.size() : random() % payload.size());
        read_stream(header + block("MTBS", 1 + random() % 5, payload));
        std::string call("\x31\x31\x01\x01\x01\x18\x00\x13", 8);
        call[random() % call.size()] = static_cast<char>(random());
        read_stream(header + block("MTBI", 1, call));
    }
}

} // namespace
