/* make_hostile - writes raw event streams that no program of ours would record.
 *
 *   make_hostile metadata FILE     two calls, of a header with that metadata
 *   make_hostile lanes N           so many lanes of an opaque stream, each with two packed key chunks
 *                                  of a record
 *   make_hostile crowd N           so many objects that all are alive at one place
 *   make_hostile source SEED       functions of Python of any names, files and lines, called from
 *                                  anywhere; with an odd SEED some definitions may not be so */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "tests/raw_builder.h"

namespace {

constexpr uint64_t kOpaque = 2; /* a feature, FORMAT.md 4.1 */

std::string of_metadata(const char *path)
{
    std::ifstream file(path);
    const std::string metadata{std::istreambuf_iterator<char>(file), {}};
    RawBuilder raw(0, metadata);
    const uint64_t object = raw.allocation(0, RawBuilder::kMalloc, 24);
    raw.freeing(0, RawBuilder::kFree, object);
    raw.end();
    return raw.bytes;
}

std::string of_lanes(uint32_t lanes)
{
    RawBuilder raw(kOpaque, "program=lanes\nallocator=glibc 2.36\n");
    raw.packing = RawBuilder::kPacked;
    raw.key = 1;
    for (uint32_t lane = 0; lane < lanes; lane++) {
        raw.thread_begin(lane, lane);
        raw.cut(lane);
        raw.end_segment(lane);
        raw.heap(lane, RawBuilder::kReleaseMemory, {});
        raw.cut(lane);
    }
    raw.end();
    return raw.bytes;
}

std::string of_crowd(uint64_t objects)
{
    RawBuilder raw;
    for (uint64_t i = 0; i < objects; i++)
        raw.allocation_at(0, RawBuilder::kMalloc, 24, 70, 0);
    raw.end();
    return raw.bytes;
}

/* Definitions of call stacks (FORMAT.md 5.8). */
class Source {
  public:
    explicit Source(uint64_t seed) : raw_(kStacks, kMetadata), random_(seed), wrong_(seed % 2) {}

    std::string make()
    {
        for (int i = 0; i < 400; i++) {
            switch (below(6)) {
            case 0: module(); break;
            case 1: text(below(2) ? 0 : 3, modules_); break;
            case 2: text(2, codes_); break;
            case 3: codes(); break;
            case 4: nodes(); break;
            default: call();
            }
        }
        raw_.end();
        return raw_.bytes;
    }

  private:
    static constexpr uint64_t kStacks = 4; /* a feature */
    static constexpr const char *kMetadata =
        "program=/bin/python3\nallocator=gperftools\nstacks=all\n";

    uint64_t below(uint64_t limit) { return random_() % limit; }
    bool is_wrong() { return wrong_ && below(200) == 0; }
    uint64_t any() { return random_() >> below(64); }

    void put(std::vector<uint16_t> &units, uint64_t number)
    {
        for (; number >> 15; number >>= 15)
            units.push_back(static_cast<uint16_t>(0x8000 | (number & 0x7fff)));
        units.push_back(static_cast<uint16_t>(number));
    }
    void define(uint64_t what, uint64_t more, const std::vector<uint64_t> &numbers,
                const std::string &bytes = "")
    {
        std::vector<uint16_t> units = {0xf03f};
        put(units, what + 8 * more);
        for (uint64_t number : numbers)
            put(units, is_wrong() ? any() : number);
        for (size_t i = 0; i < bytes.size(); i += 2)
            units.push_back(static_cast<uint16_t>(
                static_cast<uint8_t>(bytes[i]) |
                (i + 1 < bytes.size() ? static_cast<uint8_t>(bytes[i + 1]) : 0) << 8));
        raw_.units(0, units);
    }

    /* Mapped or not, with or without a language. */
    void module()
    {
        const uint64_t start = below(2) ? 0 : below(uint64_t{1} << 47);
        define(1, 0, {++modules_, start, start ? below(1 << 30) : 0, start ? below(1 << 20) : 0});
        if (below(4)) text_of(3, modules_, "python");
    }
    std::string letters()
    {
        static const std::string some[] = {"f",
                                           "<module>",
                                           ".py",
                                           "/a/",
                                           "\x1b]0;x\x07",
                                           "\t",
                                           "\n",
                                           "\xff",
                                           "\xc3\xa9",
                                           "\xe2\x80\xae",
                                           "</script><b>",
                                           "%n",
                                           "\"",
                                           std::string(1, '\0')};
        const uint64_t length = below(20) ? 1 + below(40) : 32767;
        std::string letters;
        while (letters.size() < length)
            letters += some[below(std::size(some))];
        return letters.substr(0, length);
    }
    void text_of(uint64_t of, uint64_t number, const std::string &bytes)
    {
        for (size_t at = 0; at < bytes.size(); at += 64) {
            if (below(100) == 0) return; /* the rest is lost */
            define(3, of, {number, bytes.size(), at}, bytes.substr(at, 64));
        }
    }
    /* Each has one text of a kind. */
    void text(uint64_t of, uint64_t last)
    {
        uint64_t &given = texts_[of];
        if (given >= last && !is_wrong()) return;
        given += 1 + below(last - given + 1) / 2;
        if (given <= last && of != 3) text_of(of, given, letters());
    }
    void codes()
    {
        const uint64_t count = 1 + below(8);
        std::vector<uint64_t> numbers = {codes_ ? 0u : 2u, modules_ ? below(modules_ + 2) : 0};
        for (uint64_t i = 0; i < count; i++)
            numbers.push_back(below(4) ? 2 * below(1 << 20) : i ? 0 : 2 * (any() >> 6));
        define(4, count, numbers);
        codes_ += count;
    }
    void nodes()
    {
        const uint64_t count = 1 + below(16), first = 8 + nodes_;
        const uint64_t parent = nodes_ && below(4) ? 8 + below(nodes_) : below(3);
        std::vector<uint64_t> numbers = {nodes_ ? 0 : 2 * first, first - parent};
        for (uint64_t i = 0; i < count; i++)
            numbers.push_back(1 + below(codes_ + 2));
        define(5, count, numbers);
        nodes_ += count;
    }
    void call()
    {
        std::vector<uint16_t> units = {0xf300};
        put(units, nodes_ ? 8 + below(nodes_ + 2) : 1 + below(2));
        raw_.units(0, units);
        raw_.allocation(0, RawBuilder::kMalloc, 16 + below(100));
    }

    RawBuilder raw_;
    std::mt19937_64 random_;
    bool wrong_;
    uint64_t modules_ = 0, codes_ = 0, nodes_ = 0, texts_[4] = {};
};

} // namespace

int main(int argc, char **argv)
{
    const std::string what = argc > 2 ? argv[1] : "";
    const uint64_t number = argc > 2 ? strtoull(argv[2], nullptr, 10) : 0;
    std::string bytes;
    if (what == "metadata") {
        bytes = of_metadata(argv[2]);
    } else if (what == "lanes") {
        bytes = of_lanes(static_cast<uint32_t>(number));
    } else if (what == "crowd") {
        bytes = of_crowd(number);
    } else if (what == "source") {
        bytes = Source(number).make();
    } else {
        fprintf(stderr, "usage: make_hostile metadata FILE | lanes N | crowd N | source SEED\n");
        return 2;
    }
    return fwrite(bytes.data(), 1, bytes.size(), stdout) == bytes.size() && fflush(stdout) == 0 ? 0
                                                                                                : 1;
}
