/* tracing/batch.h: what is fetched is what was noted of this list, and never more. */
#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

extern "C" {
#include "tracing/batch.h"
}

static bool has_memory;

extern "C" void *os_memory_reserve_per_process(size_t bytes)
{
    return has_memory ? calloc(1, bytes) : nullptr;
}

namespace {

/* Objects of two words, each linked to the one before it, as a thread's frees leave them. */
struct Objects {
    explicit Objects(size_t count) : words(2 * count)
    {
        for (size_t i = 1; i < count; i++)
            words[2 * i] = &words[2 * (i - 1)];
    }
    const void *last() const { return &words[words.size() - 2]; }
    std::vector<void *> words;
};

TEST(Batch, WithoutMemoryNothingIsNoted)
{
    Objects objects(4);
    has_memory = false;
    batch_begin();
    batch_note(objects.last(), 4);
    EXPECT_EQ(batch_fetch(objects.last()), 0u);
}

TEST(Batch, OthersOfAListAreFetched)
{
    Objects objects(40);
    has_memory = true;
    batch_begin();
    EXPECT_EQ(batch_fetch(objects.last()), 0u);
    batch_note(objects.last(), 5);
    EXPECT_EQ(batch_fetch(objects.last()), 4u);
    EXPECT_EQ(batch_fetch(objects.words.data()), 0u) << "another list";
    batch_note(objects.last(), 40);
    EXPECT_EQ(batch_fetch(objects.last()), 31u) << "what a note holds";
    batch_note(objects.last(), 32);
    EXPECT_EQ(batch_fetch(objects.last()), 31u);
    batch_note(objects.last(), 31);
    EXPECT_EQ(batch_fetch(objects.last()), 30u) << "the end of a shorter list";
    batch_note(objects.last(), 1);
    EXPECT_EQ(batch_fetch(objects.last()), 0u);
}

} // namespace
