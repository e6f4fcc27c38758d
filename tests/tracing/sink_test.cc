/* The end of the raw stream: what is committed comes out of the LZ4 frame as it was, and units are
 * packed, compressed or neither as it pays. */
#include <gtest/gtest.h>

#include <lz4frame.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

extern "C" {
#include "tracing/data/sink.h"
}

namespace {

std::string file;      /* what has been written */
size_t file_limit = 0; /* so many bytes and no more; 0: any number */
uint64_t now_ns;

} // namespace

/* What sink.c takes from the system. */
extern "C" {
void *os_memory_reserve(size_t bytes)
{
    return calloc(1, bytes);
}

void os_memory_release(void *memory, size_t)
{
    free(memory);
}

long os_file_write(int, const void *data, size_t bytes)
{
    if (file_limit && file.size() + bytes > file_limit) bytes = file_limit - file.size();
    if (bytes == 0) return -ENOSPC;
    file.append(static_cast<const char *>(data), bytes);
    return static_cast<long>(bytes);
}

void os_file_close(int) {}

int os_file_wait_writable(int, uint64_t)
{
    return 0;
}

uint64_t os_clock_ns(void)
{
    return now_ns;
}

void os_sleep(uint64_t) {}
}

namespace {

constexpr size_t kBlock = SINK_FLUSH_BYTES;

class Sink : public testing::Test {
  protected:
    void SetUp() override
    {
        file.clear();
        file_limit = 0;
        now_ns = 1;
        ASSERT_EQ(sink_prepare(&sink_), 0);
        ASSERT_EQ(sink_open(&sink_, 1), 0);
    }
    void TearDown() override { sink_release(&sink_); }

    /* `plain`: as packed chunks, which would have had so many bytes for each. */
    void write(const std::string &bytes, double plain = 0)
    {
        for (size_t at = 0; at < bytes.size();) {
            const size_t part = std::min<size_t>(bytes.size() - at, 30000);
            memcpy(sink_room(&sink_, part), bytes.data() + at, part);
            if (plain > 0)
                sink_commit_packed(&sink_, part,
                                   static_cast<size_t>(plain * static_cast<double>(part)));
            else
                sink_commit(&sink_, part);
            now_ns += part * ns_a_byte_;
            if (ns_a_byte_ > 0) sink_rate(&sink_, now_ns);
            if (sink_wants_flush(&sink_)) sink_flush(&sink_);
            at += part;
        }
        wanted_ += bytes;
    }

    /* Ends the frame, and compares. */
    void expect_all()
    {
        ASSERT_EQ(sink_close(&sink_), 0);
        EXPECT_EQ(sink_.bytes_in, wanted_.size());
        EXPECT_EQ(sink_.bytes_out, file.size());
        LZ4F_dctx *decoder;
        ASSERT_FALSE(LZ4F_isError(LZ4F_createDecompressionContext(&decoder, LZ4F_VERSION)));
        std::string got(wanted_.size() + 1, '\0');
        size_t made = got.size(), used = file.size();
        const size_t hint = LZ4F_decompress(decoder, &got[0], &made, file.data(), &used, nullptr);
        LZ4F_freeDecompressionContext(decoder);
        EXPECT_EQ(hint, 0u) << "the frame ends";
        EXPECT_EQ(used, file.size());
        got.resize(made);
        EXPECT_TRUE(got == wanted_);
    }

    /* No byte of these tells anything about the next one. */
    std::string noise(size_t bytes)
    {
        std::string made(bytes, '\0');
        for (char &byte : made)
            byte = static_cast<char>(random_());
        return made;
    }

    /* Shrinks to about 1/`share`: of so many bytes, one is new. */
    std::string shrinking(size_t bytes, unsigned share)
    {
        std::string made;
        while (made.size() < bytes) {
            made += noise(64);
            made += std::string(64 * (share - 1), 'x');
        }
        made.resize(bytes);
        return made;
    }

    sink sink_ = {};
    uint64_t ns_a_byte_ = 1000;
    std::string wanted_;
    std::mt19937 random_{1};
};

/* As gcc does. */
TEST_F(Sink, PacksWhatShrinksALittle)
{
    for (unsigned i = 0; i < 100; i++) {
        EXPECT_TRUE(sink_wants_packed(&sink_)) << i;
        write(shrinking(kBlock, 4), 2);
    }
    expect_all();
}

/* As redis does. */
TEST_F(Sink, DoesNotPackWhatShrinksALot)
{
    EXPECT_TRUE(sink_wants_packed(&sink_));
    write(shrinking(3 * kBlock, 40), 2);
    for (unsigned i = 0; i < 100; i++) {
        EXPECT_FALSE(sink_wants_packed(&sink_)) << i;
        write(shrinking(kBlock, 40));
    }
    expect_all();
}

/* As redis does over an opaque allocator: packed it would be a little shorter, which is not worth
 * the time; nor is what lz4 leaves little of compressed by its slow way. */
TEST_F(Sink, SparesTimeWithWhatShrinksInAnOpaqueStream)
{
    ns_a_byte_ = 100;
    sink_.is_opaque = true;
    for (unsigned i = 0; i < 100; i++) {
        const bool packs = sink_wants_packed(&sink_);
        EXPECT_TRUE(i < 2 || !packs) << i;
        EXPECT_TRUE(i < 3 || !sink_.was_hc) << i;
        write(shrinking(kBlock, 5), packs ? 2 : 0);
    }
    sink_.packs = true;
    sink_.retry_left = SINK_RETRY_BYTES_MAX;
    for (unsigned i = 0; i < 10; i++) {
        write(shrinking(kBlock, 5), 2);
        EXPECT_FALSE(sink_.was_hc) << i;
    }
    expect_all();
}

/* As programs do whose objects are ended by other threads: no age stands for two units. */
TEST_F(Sink, DoesNotPackWhatIsHardlyShorter)
{
    size_t packed = 0;
    for (size_t at = 0; at < 10 * size_t{SINK_RETRY_BYTES_MAX}; at += kBlock) {
        const bool packs = sink_wants_packed(&sink_);
        packed += packs;
        write(shrinking(kBlock, 4), packs ? 1.05 : 0);
    }
    EXPECT_GE(packed, 5u);
    EXPECT_LE(packed, 16u);
    expect_all();
}

/* What is small when packed, and not otherwise, is hardly ever tried without. */
TEST_F(Sink, TriesTheOtherFormSeldom)
{
    size_t plain = 0;
    for (size_t at = 0; at < 10 * size_t{SINK_RETRY_BYTES_MAX}; at += kBlock) {
        const bool packs = sink_wants_packed(&sink_);
        plain += !packs;
        write(shrinking(kBlock, packs ? 40 : 4), packs ? 2 : 0);
    }
    EXPECT_GE(plain, 5u);
    EXPECT_LE(plain, 15u);
    expect_all();
}

TEST_F(Sink, StoresNoise)
{
    write(noise(2 * kBlock), 0.9);
    size_t plain = 0;
    for (unsigned i = 0; i < 200; i++) {
        const bool packs = sink_wants_packed(&sink_);
        plain += !packs;
        write(noise(kBlock), packs ? 0.9 : 0);
    }
    EXPECT_GT(plain, 180u);
    EXPECT_LT(file.size(), wanted_.size() + wanted_.size() / 1000) << "blocks and their lengths";
    for (size_t at = 0; at < 2 * size_t{SINK_STORED_MAX + SINK_RETRY_BYTES_MAX}; at += kBlock)
        write(shrinking(kBlock, 4), sink_wants_packed(&sink_) ? 2 : 0);
    EXPECT_TRUE(sink_wants_packed(&sink_));
    expect_all();
}

/* A program may begin with noise and then repeat itself. */
TEST_F(Sink, CompressesSoonAfterALittleNoise)
{
    write(noise(kBlock));
    const size_t before = file.size();
    write(shrinking(8 * kBlock, 40));
    EXPECT_LT(file.size() - before, 3 * kBlock);
    expect_all();
}

/* Metadata that does not shrink come first, by themselves. */
TEST_F(Sink, CompressesBehindASmallBlock)
{
    write(noise(SINK_TELLING_BYTES - 1));
    ASSERT_EQ(sink_flush(&sink_), 0);
    const size_t before = file.size();
    write(shrinking(kBlock, 40));
    ASSERT_EQ(sink_flush(&sink_), 0);
    EXPECT_LT(file.size() - before, kBlock / 10);
    expect_all();
}

/* What lz4 would halve, from threads that hand objects on: where it comes slowly, at once, slowly
 * again, and as fast as what lz4 leaves little of. */
TEST_F(Sink, StoresWhatComesFast)
{
    const size_t bytes = 3 * size_t{SINK_STORED_MAX};
    const auto written = [&](uint64_t ns_a_byte, unsigned share) {
        const size_t before = file.size();
        const std::string some = shrinking(16 * kBlock, share);
        ns_a_byte_ = ns_a_byte;
        for (size_t at = 0; at < bytes; at += kBlock)
            write(some.substr(at % some.size(), kBlock), sink_wants_packed(&sink_) ? 1.01 : 0);
        return static_cast<double>(file.size() - before) / static_cast<double>(bytes);
    };
    EXPECT_LT(written(100, 2), 0.6);
    EXPECT_GT(written(5, 2), 0.8);
    EXPECT_LT(written(100, 2), 0.9) << "after the bytes that are stored without a try";
    EXPECT_LT(written(100, 2), 0.6);
    EXPECT_LT(written(5, 6), 0.4);
    expect_all();
}

/* What comes slowly, and waits for a writer that is held off, is written at once. */
TEST_F(Sink, CompressesWhatHasWaited)
{
    const std::string some = shrinking(16 * kBlock, 2);
    ns_a_byte_ = 0;
    for (unsigned i = 0; i < 8; i++) {
        now_ns += 100 * some.size();
        const uint64_t looked_ns = now_ns;
        write(some, sink_wants_packed(&sink_) ? 1.01 : 0);
        sink_rate(&sink_, looked_ns);
    }
    EXPECT_LT(file.size(), wanted_.size() / 10 * 6);
    expect_all();
}

/* As calls and places of an opaque stream: short sequences that come again. What comes slowly is
 * compressed better, and what comes fast or is noise between does not harm. */
TEST_F(Sink, CompressesACalmOpaqueStreamBetter)
{
    std::vector<std::string> sequences;
    for (unsigned i = 0; i < 4000; i++)
        sequences.push_back(noise(3 + i % 4));
    const auto written = [&](uint64_t ns_a_byte) {
        const size_t before = file.size();
        ns_a_byte_ = ns_a_byte;
        for (unsigned i = 0; i < 20; i++) {
            std::string some;
            while (some.size() < kBlock)
                some += sequences[random_() % 60 * (random_() % 60)];
            write(some, 2);
        }
        return file.size() - before;
    };
    sink_.is_opaque = true;
    written(5);
    const size_t fast = written(5), calm = (written(100), written(100));
    EXPECT_LT(10 * calm, 9 * fast);
    write(noise(2 * kBlock), 2);
    written(100);
    written(5);
    expect_all();
}

/* A chunk that would fit but for the length of its block, too. */
/* A slow program's blocks are small: what repeats itself does so some blocks later. */
TEST_F(Sink, RemembersBlocksBeforeTheLatest)
{
    const std::string zeros(500, '\0');
    std::string blocks[10];
    for (std::string &block : blocks)
        block = noise(500) + zeros;
    for (size_t i = 0; i < 200; i++) {
        write(blocks[i % 10]);
        sink_flush(&sink_);
    }
    expect_all();
    EXPECT_LT(file.size(), wanted_.size() / 8);
}

TEST_F(Sink, StaysInTheRing)
{
    constexpr size_t whole = SINK_BLOCK_BYTES_MAX;
    for (size_t left : {size_t{0}, size_t{1}, size_t{4}, size_t{5}}) {
        sink_.start = sink_.end = SINK_BLOCK_LENGTH_BYTES;
        for (size_t bytes : {whole, whole, SINK_RING_BYTES - 2 * whole - 4 - left}) {
            memset(sink_room(&sink_, bytes), 'x', bytes);
            sink_commit(&sink_, bytes);
            EXPECT_LE(sink_.end, SINK_RING_BYTES) << left;
            sink_flush(&sink_);
            wanted_ += std::string(bytes, 'x');
        }
    }
    expect_all();
}

TEST_F(Sink, TakesWhatCannotBeWrittenAsTheEnd)
{
    write(noise(2 * kBlock));
    file_limit = file.size() + 1000;
    write(noise(20 * kBlock));
    EXPECT_EQ(sink_.error, -ENOSPC);
    EXPECT_EQ(file.size(), file_limit);
    EXPECT_EQ(sink_close(&sink_), -ENOSPC);
}

} // namespace
