// The token that whoever asks the keeper must know.
#include "keep/token.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>

namespace {

bool Read(const std::string &content, std::string *token, std::string *why)
{
    const std::string path = testing::TempDir() + "malloctape-token-test";
    FILE *file = fopen(path.c_str(), "w");
    fwrite(content.data(), 1, content.size(), file);
    fclose(file);
    char bytes[TOKEN_BYTES], text[512];
    error error = {};
    const bool good = token_read(bytes, path.c_str(), &error);
    remove(path.c_str());
    *token = bytes;
    *why = good ? "" : error_text(&error, text, sizeof text);
    return good;
}

TEST(Token, IsTheFirstLine)
{
    std::string token, why;
    ASSERT_TRUE(Read("secret\r\nmore", &token, &why));
    EXPECT_EQ("secret", token);
    ASSERT_TRUE(Read(std::string(TOKEN_BYTES - 2, 'x') + "\n", &token, &why));
    EXPECT_EQ(TOKEN_BYTES - 2u, token.size());
}

// Not its beginning: nobody would be let in.
TEST(Token, EmptyOnesAndLongOnesAreRefused)
{
    std::string token, why;
    EXPECT_FALSE(Read("\n", &token, &why));
    EXPECT_NE(std::string::npos, why.find("empty"));
    EXPECT_FALSE(Read(std::string(TOKEN_BYTES, 'x') + "\n", &token, &why));
    EXPECT_NE(std::string::npos, why.find("longer"));
}

TEST(Token, IsComparedAsAWhole)
{
    EXPECT_TRUE(token_is("secret", "secret"));
    for (const char *wrong : {"", "s", "secre", "secret1", "Secret", "secreT"})
        EXPECT_FALSE(token_is(wrong, "secret")) << wrong;
}

double Nanoseconds(const std::string &given, const std::string &token)
{
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 200; i++)
        EXPECT_FALSE(token_is(given.c_str(), token.c_str()));
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    return took.count();
}

// Otherwise the token can be found byte by byte. The least of many short runs, in turn: a processor that
// others use is slow for longer than one.
TEST(Token, TheTimeDoesNotSayWhereItIsWrong)
{
    const std::string token(250, 'x');
    const std::string early = "y" + token.substr(1), late = token.substr(1) + "y";
    double least_early = 1e9, least_late = 1e9;
    for (int run = 0; run < 100; run++) {
        least_early = std::min(least_early, Nanoseconds(early, token));
        least_late = std::min(least_late, Nanoseconds(late, token));
    }
    EXPECT_LT(least_late, 1.5 * least_early);
}

} // namespace
