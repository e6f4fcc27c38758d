/* make_hostile - writes raw event streams that no program of ours would record.
 *
 *   make_hostile metadata FILE     two calls, of a header with that metadata
 *   make_hostile lanes N           so many lanes of an opaque stream, each with two packed key chunks
 *                                  of a record
 *   make_hostile crowd N           so many objects that all are alive at one place */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

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
    } else {
        fprintf(stderr, "usage: make_hostile metadata FILE | lanes N | crowd N\n");
        return 2;
    }
    return fwrite(bytes.data(), 1, bytes.size(), stdout) == bytes.size() && fflush(stdout) == 0 ? 0
                                                                                                : 1;
}
