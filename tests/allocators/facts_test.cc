// facts_test - what the files of allocators/ make of what an allocator says.
#include "allocators/known.h"

#include "common/text.h"

#include <gtest/gtest.h>

#include <malloc.h>

#include <cstring>
#include <set>
#include <string>

namespace {

int said;

int MimallocVersion()
{
    return said;
}

std::string MimallocVersion(int number)
{
    allocator_functions functions = {};
    functions.mi_version = MimallocVersion;
    said = number;
    char room[64];
    text version = {room, 0, sizeof room};
    allocator_facts_of(&functions)->put_version(&functions, &version);
    EXPECT_TRUE(text_end(&version));
    return room;
}

// The numbers are those of its mimalloc.h in these versions.
TEST(Facts, MimallocHasNumberedItsVersionsInThreeWays)
{
    EXPECT_EQ(MimallocVersion(161), "1.6.1");
    EXPECT_EQ(MimallocVersion(207), "2.0.7");
    EXPECT_EQ(MimallocVersion(227), "2.2.7");
    EXPECT_EQ(MimallocVersion(20302), "2.3.2");
    EXPECT_EQ(MimallocVersion(300), "3.0.0");
    EXPECT_EQ(MimallocVersion(309), "3.0.9");
    EXPECT_EQ(MimallocVersion(3010), "3.0.10");
    EXPECT_EQ(MimallocVersion(316), "3.1.6");
    EXPECT_EQ(MimallocVersion(3207), "3.2.7");
    EXPECT_EQ(MimallocVersion(30302), "3.3.2");
    EXPECT_EQ(MimallocVersion(30403), "3.4.3");
}

// ---- which one it is ----

const char *LibcVersion()
{
    return "2.36";
}

int Control(const char *, void *, size_t *, void *, size_t)
{
    return 1; // of a jemalloc that knows no such name
}

TEST(Facts, AreFoundByTheFunctionsThatAnAllocatorHas)
{
    allocator_functions functions = {};
    EXPECT_EQ(allocator_facts_of(&functions), nullptr);
    functions.gnu_get_libc_version = LibcVersion;
    EXPECT_EQ(allocator_facts_of(&functions), &allocator_glibc);
    functions.mi_version = MimallocVersion;
    EXPECT_EQ(allocator_facts_of(&functions), &allocator_mimalloc);
}

TEST(Facts, OfAnAllocatorThatTellsNothingAreEmpty)
{
    allocator_functions functions = {};
    functions.mallctl = Control;
    EXPECT_EQ(allocator_facts_of(&functions), &allocator_jemalloc);
    EXPECT_EQ(allocator_jemalloc.heap_source(&functions), nullptr);
    EXPECT_EQ(allocator_jemalloc.heap_bytes(&functions), 0u);
    EXPECT_FALSE(allocator_jemalloc.has_statistics(&functions));
    EXPECT_EQ(allocator_mimalloc.heap_source(&functions), nullptr);
    EXPECT_EQ(allocator_mimalloc.heap_bytes(&functions), 0u);
    EXPECT_FALSE(allocator_mimalloc.has_statistics(&functions));
    EXPECT_EQ(allocator_tcmalloc.heap_bytes(&functions), 0u);
}

// ---- statistics that are printed ----

const char *const *printed;

void Print(void (*line)(const char *, void *), void *of)
{
    for (const char *const *one = printed; *one != nullptr; one++)
        line(*one, of);
}

std::string Statistics(const char *const *lines)
{
    allocator_functions functions = {};
    functions.mi_stats_print_out = Print;
    printed = lines;
    uint64_t values[ALLOCATOR_STATISTICS_MAX] = {};
    const unsigned count = allocator_mimalloc.read_statistics(&functions, values);
    EXPECT_EQ(allocator_mimalloc.has_statistics(&functions), count == 2);
    std::string text;
    for (unsigned i = 0; i < count; i++)
        text += std::to_string(values[i]) + " ";
    return text;
}

TEST(Facts, MimallocPrintsTheNumbersOfSegments)
{
    const char *const before[] = {"heap stats:  peak  total  freed  current  unit  count", // 2.0
                                  "  segments:  7      9      5      4     0     0  ok",
                                  "-abandoned:  3      3      1.5 Ki  -2     0     0  ok",
                                  "-abandoned:  8      8      8      8     0     0  ok", nullptr};
    const char *const since[] = {"heap stats:  peak  total  current  unit  total#", // 2.2
                                 "  segments:  7      9    1.5 Ki     0     0  ok",
                                 "-abandoned:  3      3      2     0     0  ok", nullptr};
    const char *const third[] = {"heap stats:  peak  total  current", "  pages: 1 2 3", nullptr};
    EXPECT_EQ(Statistics(before), "4 0 ");
    EXPECT_EQ(Statistics(since), "1536 2 ");
    EXPECT_EQ(Statistics(third), "");
}

// ---- tables ----

TEST(Facts, OfEachAllocatorAreComplete)
{
    std::set<std::string> names;
#define NAME(name, where, files, package, no_switching, help) names.insert(name);
    KNOWN_ALLOCATOR_LIST(NAME)
#undef NAME
    for (const auto *facts : allocator_facts) {
        EXPECT_EQ(names.count(facts->name), 1u) << facts->name;
        EXPECT_EQ(strncmp(facts->sizes_name, facts->name, strlen(facts->name)), 0);
        EXPECT_NE(strstr(ALLOCATOR_COLOURS, facts->name), nullptr);
        EXPECT_LE(facts->statistics_count, unsigned{ALLOCATOR_STATISTICS_MAX});
        EXPECT_EQ(facts->statistics == nullptr, facts->read_statistics == nullptr);
        EXPECT_TRUE(facts->put_version && facts->heap_bytes && facts->release_means &&
                    facts->release);
        for (const char *const *one = facts->tuned; one != nullptr && *one != nullptr; one++)
            EXPECT_NE(strchr(*one, '='), nullptr) << *one;
        for (uint64_t size = 0, before = 0; size < 600000; size += 1 + size / 50) {
            EXPECT_GE(facts->size(size), size < 1 ? 1 : size) << facts->name;
            EXPECT_GE(facts->size(size), before) << facts->name;
            before = facts->size(size);
        }
    }
}

} // namespace
