// common/output_name: what the letters after a % in the name of an output stand for.

#include "common/output_name.h"

#include <errno.h>
#include <gtest/gtest.h>

#include <string>

namespace {

const struct output_names some_names = {4711, "host.example", 1700000000, "/usr/bin/server", 1};

std::string expand(const char *name, const struct output_names &names = some_names)
{
    char expanded[256];
    int length = output_name_expand(name, &names, expanded, sizeof expanded);
    if (length < 0) return "error " + std::to_string(-length);
    EXPECT_EQ(expanded[length], '\0');
    return std::string(expanded, static_cast<size_t>(length));
}

TEST(OutputName, StaysWhatItIsWithoutPercent)
{
    EXPECT_EQ(expand("dir/raw.lz4"), "dir/raw.lz4");
    EXPECT_EQ(expand(""), "");
}

TEST(OutputName, HasFourLettersAndPercent)
{
    EXPECT_EQ(expand("%p"), "4711");
    EXPECT_EQ(expand("%h"), "host.example");
    EXPECT_EQ(expand("%t"), "1700000000");
    EXPECT_EQ(expand("%e"), "server");
    EXPECT_EQ(expand("%%"), "%");
    EXPECT_EQ(expand("/d/%e-%h-%t-%p.lz4%%p"), "/d/server-host.example-1700000000-4711.lz4%p");
}

TEST(OutputName, LaterProgramsOfAProcessHaveANumber)
{
    struct output_names names = some_names;
    names.program_number = 2;
    EXPECT_EQ(expand("raw.%p.lz4", names), "raw.4711.2.lz4");
    EXPECT_EQ(expand("%e", names), "server");
}

TEST(OutputName, OthersAreRefused)
{
    EXPECT_EQ(expand("raw%s"), "error " + std::to_string(EINVAL));
    EXPECT_EQ(expand("raw%"), "error " + std::to_string(EINVAL));
    EXPECT_EQ(expand("%%%"), "error " + std::to_string(EINVAL));
}

// Neither a way into another directory nor a word to a shell.
TEST(OutputName, NamesOfOthersAreMadeHarmless)
{
    struct output_names names = some_names;
    names.host = "../h";
    names.program = "./a;rm -rf $HOME`x`'\"\n";
    EXPECT_EQ(expand("%h", names), ".._h");
    EXPECT_EQ(expand("%e", names), "a_rm_-rf__HOME_x____");
    names.program = "/opt/\xc3\xa4ndern";
    EXPECT_EQ(expand("%e", names), "\xc3\xa4ndern");
    names.program = "dir/";
    EXPECT_EQ(expand("x%e", names), "x");
}

TEST(OutputName, MustFit)
{
    char expanded[8];
    EXPECT_EQ(output_name_expand("raw.lz4", &some_names, expanded, 8), 7);
    EXPECT_EQ(output_name_expand("raw.lz4", &some_names, expanded, 7), -ENAMETOOLONG);
    EXPECT_EQ(output_name_expand("%p.lz4", &some_names, expanded, 8), -ENAMETOOLONG);
    EXPECT_EQ(output_name_expand("%t", &some_names, expanded, 8), -ENAMETOOLONG);
}

TEST(OutputName, HasAProcessOrNot)
{
    EXPECT_TRUE(output_name_has_process("raw.%p.lz4"));
    EXPECT_TRUE(output_name_has_process("%%%p"));
    EXPECT_FALSE(output_name_has_process("raw.%%p"));
    EXPECT_FALSE(output_name_has_process("raw.%h"));
    EXPECT_FALSE(output_name_has_process("raw%"));
    EXPECT_FALSE(output_name_has_process(""));
}

} // namespace
