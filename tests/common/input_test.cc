// common/input and common/output: what goes in comes out, however it is cut up, and it is said
// where it ends.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <lz4frame.h>
#include <signal.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <string>
#include <thread>

#include "common/input.h"
#include "common/output.h"

namespace {

std::string noise(size_t bytes)
{
    std::mt19937 random(7);
    std::string data(bytes, '\0');
    for (size_t i = 0; i < bytes; i++)
        data[i] = static_cast<char>(i % 3 ? random() % 4 : random());
    return data;
}

std::string frame(const std::string &data, LZ4F_blockSizeID_t block = LZ4F_max64KB,
                  LZ4F_blockMode_t mode = LZ4F_blockLinked)
{
    LZ4F_preferences_t preferences = {};
    preferences.frameInfo.blockSizeID = block;
    preferences.frameInfo.blockMode = mode;
    preferences.frameInfo.contentChecksumFlag = LZ4F_contentChecksumEnabled;
    std::string packed(LZ4F_compressFrameBound(data.size(), &preferences), '\0');
    packed.resize(
        LZ4F_compressFrame(&packed[0], packed.size(), data.data(), data.size(), &preferences));
    return packed;
}

std::string skippable(const std::string &data)
{
    std::string head("\x53\x2a\x4d\x18", 4);
    for (int shift = 0; shift < 32; shift += 8)
        head += static_cast<char>(data.size() >> shift);
    return head + data;
}

struct Result {
    std::string data;
    input_state state;
    bool lz4;
    std::string error;
    uint64_t offset;
};

// Reads everything from a pipe into which the writer puts `pieces` bytes at a time, in steps of
// `wanted`.
Result read_all(const std::string &stored, size_t piece = 1 << 20, size_t wanted = 1000)
{
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    signal(SIGPIPE, SIG_IGN); // a reader that gives up closes the pipe
    std::thread writer([&] {
        for (size_t at = 0; at < stored.size();) {
            ssize_t sent = write(ends[1], stored.data() + at, std::min(piece, stored.size() - at));
            if (sent <= 0) break;
            at += static_cast<size_t>(sent);
        }
        close(ends[1]);
    });
    Result result;
    input in;
    input_open_fd(&in, ends[0]);
    for (;;) {
        size_t there = input_peek(&in, wanted);
        EXPECT_EQ(input_offset(&in), result.data.size());
        EXPECT_TRUE(there >= wanted || in.state != INPUT_MORE);
        if (there == 0) break;
        size_t take = std::min(there, wanted);
        result.data.append(reinterpret_cast<const char *>(in.next), take);
        input_skip(&in, take);
    }
    result.state = in.state;
    result.lz4 = in.lz4;
    result.error = in.error.kind != nullptr ? in.error.kind->name : "";
    result.offset = input_file_offset(&in);
    input_close(&in);
    close(ends[0]);
    writer.join();
    return result;
}

TEST(Input, PlainDataPassesThrough)
{
    for (size_t bytes : {0, 1, 3, 4, 5, 999, 1000, 1001, 3000000}) {
        std::string data = noise(bytes);
        for (size_t piece : {1, 7, 1 << 20}) {
            if (piece < 1000 && bytes > 10000) continue;
            Result result = read_all(data, piece);
            EXPECT_EQ(result.data, data);
            EXPECT_EQ(result.state, INPUT_END);
            EXPECT_FALSE(result.lz4);
            EXPECT_EQ(result.offset, bytes);
        }
    }
}

TEST(Input, FramesAreDecoded)
{
    std::string data = noise(3000000);
    for (LZ4F_blockSizeID_t block : {LZ4F_max64KB, LZ4F_max4MB})
        for (LZ4F_blockMode_t mode : {LZ4F_blockLinked, LZ4F_blockIndependent}) {
            std::string stored = frame(data, block, mode);
            Result result = read_all(stored);
            EXPECT_EQ(result.data, data);
            EXPECT_EQ(result.state, INPUT_END);
            EXPECT_TRUE(result.lz4);
            EXPECT_EQ(result.offset, stored.size());
        }
    EXPECT_EQ(read_all(frame(data), 1 << 20, INPUT_PEEK_MAX).data, data);
    EXPECT_EQ(read_all(frame(noise(5000)), 1).data, noise(5000));
}

TEST(Input, FramesFollowOneAnother)
{
    std::string one = noise(100000), two = noise(70001);
    std::string stored = skippable("metadata") + frame(one) + skippable("") + frame("") +
                         frame(two) + skippable(noise(300000));
    for (size_t piece : {13, 4096, 1 << 20}) {
        Result result = read_all(stored, piece);
        EXPECT_EQ(result.data, one + two);
        EXPECT_EQ(result.state, INPUT_END) << result.error;
    }
}

TEST(Input, FramesMayBeLarge)
{
    std::string data = noise(9u << 20);
    std::string stored = skippable(std::string(5u << 20, 'x')) + frame(data, LZ4F_max4MB) +
                         frame(data, LZ4F_max4MB, LZ4F_blockIndependent);
    for (size_t wanted : {1000, 4000000}) {
        Result result = read_all(stored, 1 << 20, wanted);
        EXPECT_TRUE(result.data == data + data);
        EXPECT_EQ(result.state, INPUT_END) << result.error;
    }
}

TEST(Input, CutFramesAreTold)
{
    std::string data = noise(200000), stored = frame(data) + frame(data);
    size_t first = frame(data).size();
    for (size_t bytes = 4; bytes < stored.size(); bytes += bytes < 30 ? 1 : 997) {
        if (bytes == first) continue;
        Result result = read_all(stored.substr(0, bytes));
        EXPECT_EQ(result.state, INPUT_CUT) << bytes;
        EXPECT_EQ(result.error, "lz4_cut");
        EXPECT_EQ(result.data, (data + data).substr(0, result.data.size()));
    }
    EXPECT_EQ(read_all(stored.substr(0, first)).state, INPUT_END);
    EXPECT_EQ(read_all(stored.substr(0, first + 2)).error, "lz4_cut");
}

TEST(Input, DamageIsTold)
{
    std::string data = noise(200000), stored = frame(data);
    for (size_t at = 4; at < stored.size(); at += 101) {
        std::string damaged = stored;
        damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
        EXPECT_NE(read_all(damaged).state, INPUT_END) << at;
    }
    EXPECT_EQ(read_all(stored + "more").error, "lz4_trailing");
    EXPECT_EQ(read_all(std::string("\x02\x21\x4c\x18", 4) + data).error, "lz4_legacy");
}

TEST(Input, DamageTakesNothingWithIt)
{
    const size_t block_bytes = 64 << 10;
    std::string data;
    for (unsigned i = 0; data.size() < 8 * block_bytes; i++)
        data += std::to_string(i * 7919);
    data.resize(8 * block_bytes);
    for (LZ4F_blockMode_t mode : {LZ4F_blockLinked, LZ4F_blockIndependent}) {
        std::string stored = frame(data, LZ4F_max64KB, mode);
        size_t at = 7;
        for (size_t block = 0; block < 8; block++) {
            uint32_t bytes;
            memcpy(&bytes, &stored[at], sizeof bytes);
            std::string damaged = stored;
            damaged.replace(at + 4, 600, 600, '\xff'); // literals without end
            Result result = read_all(damaged);
            EXPECT_EQ(result.state, INPUT_FAILED);
            EXPECT_EQ(result.data.size(), block * block_bytes);
            EXPECT_TRUE(result.data == data.substr(0, result.data.size()));
            at += 4 + bytes;
        }
    }
}

TEST(Input, ALivePipeIsNotKeptWaiting)
{
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    input in;
    input_open_fd(&in, ends[0]);
    ASSERT_EQ(write(ends[1], "0123456789", 10), 10);
    EXPECT_EQ(input_peek(&in, 8), 10u); // would block if it wanted to fill the buffer
    input_skip(&in, 10);
    ASSERT_EQ(write(ends[1], "abc", 3), 3);
    EXPECT_EQ(input_peek(&in, 3), 3u);
    close(ends[1]);
    EXPECT_EQ(input_peek(&in, 4), 3u);
    EXPECT_EQ(in.state, INPUT_END);
    input_close(&in);
    close(ends[0]);
}

TEST(Input, WhatCannotBeReadIsSaid)
{
    input in;
    char text[512];
    EXPECT_FALSE(input_open(&in, "/no/such/file"));
    EXPECT_STREQ(error_text(&in.error, text, sizeof text),
                 "cannot open: No such file or directory");
    input_close(&in);
    ASSERT_TRUE(input_open(&in, "/"));
    EXPECT_EQ(input_peek(&in, 1), 0u);
    EXPECT_EQ(in.state, INPUT_FAILED);
    EXPECT_STREQ(error_text(&in.error, text, sizeof text), "cannot read: Is a directory");
    input_close(&in);
}

TEST(Output, EverythingArrivesThroughASlowPipe)
{
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    fcntl(ends[1], F_SETFL, O_NONBLOCK); // short writes and EAGAIN
    std::string data = noise(2000000), arrived;
    std::thread reader([&] {
        char buffer[3000];
        for (ssize_t bytes; (bytes = read(ends[0], buffer, sizeof buffer)) > 0;)
            arrived.append(buffer, static_cast<size_t>(bytes));
    });
    output out;
    ASSERT_TRUE(output_open_fd(&out, ends[1]));
    std::mt19937 random(3);
    for (size_t at = 0; at < data.size();) {
        size_t bytes =
            std::min<size_t>(random() % 10 ? random() % 100 : random() % 300000, data.size() - at);
        ASSERT_TRUE(output_write(&out, data.data() + at, bytes));
        at += bytes;
        EXPECT_EQ(out.offset, at);
    }
    EXPECT_TRUE(output_close(&out));
    close(ends[1]);
    reader.join();
    close(ends[0]);
    EXPECT_EQ(arrived, data);
}

TEST(Output, TheFirstFailureStays)
{
    output out;
    char text[512];
    EXPECT_FALSE(output_open(&out, "/no/such/directory/file"));
    EXPECT_FALSE(output_close(&out));
    EXPECT_STREQ(error_text(&out.error, text, sizeof text),
                 "cannot open for writing: No such file or directory");
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    if (full < 0) GTEST_SKIP() << "no /dev/full";
    ASSERT_TRUE(output_open_fd(&out, full));
    EXPECT_TRUE(output_write(&out, "x", 1));
    EXPECT_FALSE(output_flush(&out));
    EXPECT_FALSE(output_write(&out, "x", 1));
    EXPECT_FALSE(output_close(&out));
    EXPECT_STREQ(error_text(&out.error, text, sizeof text),
                 "cannot write: No space left on device");
    close(full);
}

} // namespace
