/* The table of call stacks holds what was defined, and refuses what cannot be. */
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "stream/stacks.h"

namespace {

stack_definition define(uint32_t what, uint32_t number, uint32_t count = 0, uint32_t of = 0)
{
    stack_definition made = {};
    made.what = what, made.number = number, made.count = count, made.of = of;
    return made;
}

class Stacks : public testing::Test {
  public:
    struct stacks stacks = {};
    ~Stacks() override { stacks_free(&stacks); }

    const char *module(uint32_t number, uint64_t start = 0x1000)
    {
        stack_definition made = define(STACK_MODULE, number);
        made.start = start, made.end = start + 100, made.bias = start - 16;
        return stacks_define(&stacks, &made);
    }

    /* Nodes from `first` on with these codes. */
    const char *nodes(uint32_t first, uint32_t parent, std::initializer_list<uint32_t> codes)
    {
        stack_definition made =
            define(STACK_NODES, first, static_cast<uint32_t>(codes.size()), parent);
        std::copy(codes.begin(), codes.end(), made.codes);
        return stacks_define(&stacks, &made);
    }

    const char *codes(uint32_t first, uint32_t of, std::initializer_list<uint64_t> offsets)
    {
        stack_definition made =
            define(STACK_CODES, first, static_cast<uint32_t>(offsets.size()), of);
        std::copy(offsets.begin(), offsets.end(), made.offsets);
        return stacks_define(&stacks, &made);
    }

    /* The pieces but for one. */
    void text(uint32_t of, uint32_t number, const std::string &bytes, uint32_t without = ~0u)
    {
        stack_definition piece = define(STACK_TEXT, number, 0, of);
        piece.length = static_cast<uint32_t>(bytes.size());
        for (; piece.offset < piece.length; piece.offset += STACK_PIECE_BYTES) {
            memcpy(piece.piece, &bytes[piece.offset], stack_piece_bytes(&piece));
            if (piece.offset == without) continue;
            EXPECT_EQ(stacks_define(&stacks, &piece), nullptr);
        }
    }
};

TEST_F(Stacks, AStackIsAWayThroughTheTree)
{
    uint32_t depth;
    EXPECT_EQ(nodes(10, 9, {3, 4}), nullptr) << "before its parent";
    EXPECT_EQ(stacks_end(&stacks, 11, &depth), 9u) << "not known yet";
    EXPECT_EQ(depth, 2u);
    EXPECT_EQ(nodes(9, STACK_CUT_BY_CODE, {7}), nullptr);
    EXPECT_EQ(stacks_end(&stacks, 11, &depth), STACK_CUT_BY_CODE);
    EXPECT_EQ(depth, 3u);
    EXPECT_EQ(stacks_node(&stacks, 11)->parent, 10u);
    EXPECT_EQ(stacks_node(&stacks, 11)->code, 4u);
    EXPECT_EQ(stacks_node(&stacks, 10)->parent, 9u);
    EXPECT_EQ(stacks_node(&stacks, 12), nullptr);
    EXPECT_EQ(stacks_node(&stacks, STACK_END), nullptr);
    EXPECT_EQ(stacks_end(&stacks, STACK_END, &depth), STACK_END);
    EXPECT_EQ(depth, 0u);
    EXPECT_EQ(stacks.nodes, 3u);
}

// Also of a hundred thousand stacks that are as deep: each node is looked at once.
TEST_F(Stacks, UnknownStacksAreCounted)
{
    const uint32_t count = 100000;
    for (uint32_t i = STACK_NODE_FIRST; i < count; i++) {
        const uint32_t parent = i == STACK_NODE_FIRST ? uint32_t{STACK_END} : i - 1;
        if (i != 50) {
            EXPECT_EQ(nodes(i, parent, {1}), nullptr);
        }
        EXPECT_TRUE(stacks_use(&stacks, i));
    }
    EXPECT_EQ(stacks_unknown(&stacks), count - 50);
    EXPECT_TRUE(stacks_use(&stacks, count + 7));
    EXPECT_TRUE(stacks_use(&stacks, STACK_CUT_BY_CODE));
    EXPECT_EQ(stacks_unknown(&stacks), count - 49) << "one that is not there; one without frames";
    EXPECT_EQ(nodes(50, 49, {1}), nullptr);
    EXPECT_EQ(stacks_unknown(&stacks), 1u);
}

TEST_F(Stacks, CodesAndModules)
{
    EXPECT_EQ(codes(1, 2, {0x500, 7}), nullptr) << "before its module";
    EXPECT_EQ(stacks_module(&stacks, 2), nullptr);
    EXPECT_EQ(module(2, 0x7000), nullptr);
    EXPECT_EQ(stacks_code(&stacks, 2)->offset, 7u);
    EXPECT_EQ(stacks_code(&stacks, 2)->module, 2u);
    EXPECT_EQ(stacks_code(&stacks, 3), nullptr);
    EXPECT_EQ(stacks_code(&stacks, 0), nullptr);
    EXPECT_EQ(stacks_module(&stacks, 2)->bias, 0x6ff0u);
    EXPECT_FALSE(stacks_module(&stacks, 2)->unloaded);
    const stack_definition unloaded = define(STACK_UNLOADED, 2);
    EXPECT_EQ(stacks_define(&stacks, &unloaded), nullptr);
    EXPECT_TRUE(stacks_module(&stacks, 2)->unloaded);
}

TEST_F(Stacks, TextsAreWholeOrNotKnown)
{
    const std::string path(200, 'p'), id("\0\1\2", 3);
    ASSERT_EQ(module(1), nullptr);
    EXPECT_EQ(stack_text_bytes(&stacks_module(&stacks, 1)->path), nullptr);
    text(STACK_PATH, 1, path);
    text(STACK_BUILD_ID, 1, id);
    const struct stack_module *module = stacks_module(&stacks, 1);
    EXPECT_STREQ(reinterpret_cast<const char *>(stack_text_bytes(&module->path)), path.c_str());
    ASSERT_EQ(module->build_id.length, 3u);
    EXPECT_EQ(0, memcmp(stack_text_bytes(&module->build_id), id.data(), 3));
    for (uint32_t without : {0u, 64u, 128u, 192u}) {
        text(STACK_CODE_TEXT, 5 + without, path, without);
        EXPECT_EQ(stacks_text_of_code(&stacks, 5 + without), nullptr) << without;
        EXPECT_EQ(stacks_code(&stacks, 5 + without), nullptr);
    }
    text(STACK_CODE_TEXT, 6, "main\tmain.c\t7");
    EXPECT_STREQ(stacks_text_of_code(&stacks, 6), "main\tmain.c\t7");
    EXPECT_EQ(stacks_text_of_code(&stacks, 7), nullptr);
    EXPECT_EQ(stacks_text_of_code(&stacks, STACK_NUMBERS_LIMIT - 1), nullptr);
}

TEST_F(Stacks, NothingIsGivenTwice)
{
    ASSERT_EQ(module(1), nullptr);
    ASSERT_EQ(codes(5, 1, {1, 2}), nullptr);
    ASSERT_EQ(nodes(20, STACK_END, {5, 6}), nullptr);
    text(STACK_PATH, 1, "/bin/a");
    stack_definition path = define(STACK_TEXT, 1, 0, STACK_PATH);
    path.length = 1;
    EXPECT_STREQ(module(1), "a module that is given twice");
    EXPECT_STREQ(codes(4, 1, {1, 2}), "a code that is given twice");
    EXPECT_EQ(stacks_code(&stacks, 4), nullptr) << "as it was before";
    EXPECT_STREQ(nodes(19, STACK_END, {5, 6}), "a node that is given twice");
    EXPECT_EQ(stacks_node(&stacks, 19), nullptr);
    EXPECT_STREQ(stacks_define(&stacks, &path), "a text that is given twice");
    EXPECT_EQ(stacks.nodes, 2u);
    EXPECT_EQ(stacks.codes, 2u);
}

/* Neither loops nor more than their record may have. */
TEST_F(Stacks, NothingIsOutsideOfItsLimits)
{
    stack_definition many = define(STACK_NODES, 50, STACK_NODES_MAX + 1);
    EXPECT_NE(nodes(20, 20, {1}), nullptr) << "its own parent";
    EXPECT_NE(nodes(20, 21, {1}), nullptr);
    EXPECT_NE(nodes(STACK_NODE_FIRST - 1, STACK_END, {1}), nullptr);
    EXPECT_NE(nodes(STACK_NUMBERS_LIMIT - 1, STACK_END, {1, 1}), nullptr);
    EXPECT_NE(nodes(20, STACK_END, {}), nullptr);
    EXPECT_NE(nodes(20, STACK_END, {0}), nullptr);
    EXPECT_NE(nodes(20, STACK_END, {STACK_NUMBERS_LIMIT}), nullptr);
    EXPECT_NE(codes(0, 1, {1}), nullptr);
    EXPECT_NE(codes(1, STACK_MODULES_LIMIT, {1}), nullptr);
    EXPECT_NE(codes(1, 1, {STACK_OFFSETS_LIMIT}), nullptr);
    EXPECT_NE(module(0), nullptr);
    EXPECT_NE(module(STACK_MODULES_LIMIT), nullptr);
    EXPECT_NE(stacks_define(&stacks, &many), nullptr);
    many = define(STACK_CODES, 50, STACK_CODES_MAX + 1);
    EXPECT_NE(stacks_define(&stacks, &many), nullptr);
    for (uint32_t what : {0u, 6u, 7u}) {
        const stack_definition unknown = define(what, 1, 1);
        EXPECT_NE(stacks_define(&stacks, &unknown), nullptr) << what;
    }
    stack_definition piece = define(STACK_TEXT, 1, 0, STACK_BUILD_ID);
    for (auto [length, offset] : {std::pair{0u, 0u}, {65u, 0u}, {64u, 64u}, {64u, 1u}}) {
        piece.length = length, piece.offset = offset;
        EXPECT_NE(stacks_define(&stacks, &piece), nullptr) << length << " " << offset;
    }
    EXPECT_EQ(stacks.nodes + stacks.codes + stacks.modules, 0u);
}

/* A few definitions do not take gigabytes (FORMAT.md 2.8). */
TEST_F(Stacks, NumbersAreNotFarApart)
{
    const uint32_t free = 1u << 22;
    EXPECT_EQ(nodes(free - 1, STACK_END, {1}), nullptr);
    EXPECT_STREQ(nodes(free + 16, STACK_END, {1}), "a number far above those that are defined");
    EXPECT_EQ(nodes(free + 15, STACK_END, {1}), nullptr);
    EXPECT_EQ(codes(free - 1, 1, {1}), nullptr);
    EXPECT_NE(codes(free + 16, 1, {1}), nullptr);
    stack_definition text = define(STACK_TEXT, STACK_NUMBERS_LIMIT - 1, 0, STACK_CODE_TEXT);
    text.length = 1;
    EXPECT_NE(stacks_define(&stacks, &text), nullptr);
}

} // namespace
