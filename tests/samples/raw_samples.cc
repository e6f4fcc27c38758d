/* Raw streams that readers take. */
#include <algorithm>

#include "tests/samples/raw_sample.h"
#include "tests/samples/samples.h"
#include "tests/sim/bytes.h"

namespace {

using Object = RawBuilder::Object;

std::string example() /* FORMAT.md 5.7 */
{
    RawSample raw;
    raw.records(0, [&] {
        raw.thread_begin(0, 4711);
        raw.cache_begin(0);
        raw.sequence(0, 51, 3, 1);
        raw.sequence(0, 51, 255, 1);
        raw.size_class(0, 3, 24);
        raw.cached(0, 3, {65, 64});
        uint64_t first = raw.allocate(CALL_MALLOC, 24);
        raw.allocate(CALL_MALLOC, 20);
        raw.freeing(0, CALL_FREE, first);
        raw.allocate(CALL_MALLOC, 24);
    });
    return raw.finish();
}

std::string empty()
{
    RawStreamHeader header = RawSample::header();
    header.metadata = "";
    return RawSample(header).finish();
}

/* --- every record --- */

/* A place of the class, in the first block that it has here. */
uint32_t spot(uint32_t size_class, uint32_t index = 0)
{
    return 20608 * size_class + index;
}

/* Classes are announced in no order. */
void fill_cache(RawSample &raw)
{
    static const std::pair<uint32_t, uint64_t> classes[] = {
        {126, 65536}, {1, 8}, {127, UINT32_MAX}, {40, 1024}, {2, 15}};
    raw.cache_begin(raw.lane);
    for (const auto &[number, object_bytes] : classes) {
        std::vector<uint32_t> places;
        for (uint32_t i = 16; i-- > 0;)
            places.push_back(spot(number, 3 * i));
        raw.size_class(raw.lane, number, object_bytes);
        raw.cached(raw.lane, number, places);
        raw.cached(raw.lane, number, {spot(number, 63)});
    }
}

/* On own, foreign and unknown objects. */
void every_end(RawSample &raw, int kind, uint64_t *address)
{
    uint64_t serial = static_cast<uint64_t>(kind);
    uint64_t own = raw.allocate(CALL_MALLOC, 8, 0, *address += 64);
    auto foreign = [&raw](uint32_t lane, uint64_t number, uint64_t bound) {
        Object object = raw.object(RawSample::token(lane, number));
        object.bound = bound;
        return object;
    };
    for (const std::function<Object()> &object : std::initializer_list<std::function<Object()>>{
             [&] { return raw.object(own); },
             [&] { return foreign(7, 1000 + serial, 1000 + serial); },
             [&] { return foreign(7, 900, 900); }, [&] { return foreign(7, 900, 1 << 30); },
             [&] { return foreign(9, 1, (uint64_t{1} << 42) - 1); },
             [&] { return RawSample::foreign(7, 5, spot(1, 50), 1); },
             [&] { return RawSample::unknown(); },
             [&] { return RawSample::unknown((1 << 27) - 1); },
             [&] { return RawSample::unknown(spot(40, 50), 40); }}) {
        bool is_realloc = kind_traits[kind].shape == kRealloc;
        raw.end(kind, object(), serial * 1000, 4096, is_realloc ? *address += 64 : 0);
    }
}

/* Every kind of call; allocations take places from the cache until it is empty. */
void every_call(RawSample &raw, uint64_t *address)
{
    fill_cache(raw);
    for (int kind = 1; kind < 45; kind++) {
        const KindTraits &traits = kind_traits[kind];
        if (traits.shape == kAllocation) {
            raw.allocate(kind, static_cast<uint64_t>(kind) * 1000, 64, *address += 64);
        } else if (traits.shape == kHeap) {
            raw.heap(raw.lane, kind, {});
            raw.heap(raw.lane, kind, {5});
            raw.heap(raw.lane, kind, {5, UINT64_MAX});
        } else {
            every_end(raw, kind, address);
        }
    }
}

/* Places that come, go, are taken out of turn, and come again. */
void every_list(RawSample &raw)
{
    const uint32_t lane = raw.lane;
    raw.uncached(lane, 126, 16);
    raw.allocate(CALL_MALLOC, 60000, 0, 64); /* the last one */
    raw.cached(lane, 126, {spot(126, 63), (1 << 27) - 128});
    raw.allocation_at(lane, CALL_MALLOC, 60000, spot(126, 63), 126); /* the first one */
    raw.allocate(CALL_MALLOC, 60000, 0, 8);
    /* The last one: it stays in the list, too. */
    raw.allocation_at(lane, CALL_MALLOC, 9, spot(2), 2, 0, 16);
    for (uint64_t i = 0; i < 17; i++)
        raw.allocate(CALL_MALLOC, 9, 0, 24 + i * 16);
    raw.allocate(CALL_MALLOC, UINT32_MAX, 0, 8);
    raw.cache_begin(lane);
    raw.cached(lane, 1, {spot(1)});
    uint64_t object = raw.allocate(CALL_MALLOC, 1, 0, 8);
    raw.end(CALL_REALLOC_MOVED, raw.object(object), 2, 0, 16);
    raw.allocate(CALL_MALLOC, 3, 0, 8); /* where the moved one had been */
}

/* What is no call. */
void every_other(RawSample &raw)
{
    const uint32_t lane = raw.lane;
    raw.thread_begin(lane, uint64_t{1} << 32);
    fill_cache(raw);
    uint64_t own = raw.allocate(CALL_MALLOC, 0, 0, (uint64_t{1} << 47) - 8);
    raw.failed(lane, CALL_MALLOC, uint64_t{1} << 62);
    raw.failed(lane, CALL_MEMALIGN, uint64_t{1} << 63, uint64_t{1} << 63);
    for (const Object &object : {raw.object(own), raw.object(RawSample::token(7, 5)),
                                 RawSample::foreign(7, 5, spot(1, 50), 1), RawSample::unknown(),
                                 RawSample::unknown(spot(40, 50), 40)})
        raw.failed(lane, CALL_REALLOC_MOVED, UINT64_MAX, 0, object);
    raw.sequence(lane, 52, 127, uint64_t{1} << 40);
    every_list(raw);
    raw.lost(lane, 3, 2);
    raw.freeing(lane, CALL_FREE, own);
    raw.sequence(lane, 52, 127, (uint64_t{1} << 40) + 1);
    raw.thread_cache_deleted(lane);
    raw.sequence(lane, 52, 0, 1);
    raw.thread_end(lane);
}

RawSample everything(bool addresses)
{
    RawStreamHeader header = RawSample::header();
    header.features = addresses;
    RawSample raw(header);
    uint64_t address = uint64_t{1} << 46;
    raw.tick(10000000, 4096, 0);
    raw.records(0, [&] { every_call(raw, &address); });
    raw.records(300, [&] { every_other(raw); });
    raw.tick(20000000, uint64_t{1} << 40, uint64_t{1} << 41);
    raw.more(0, [&] { every_call(raw, &address); });
    raw.key = 1;
    raw.records(0, [&] { every_other(raw); });
    raw.more(0, [&] { every_call(raw, &address); });
    return raw;
}

/* Ticks as they are now, and as they once were. */
std::string usage()
{
    RawSample raw;
    raw.records(0, [&] { raw.allocate(CALL_MALLOC, 24); });
    raw.tick(10000000, 4194304, 0, true, {1048576, 7000000, 2000000, 0});
    raw.tick(20000000, 4194304, 65536);
    raw.tick(30000000, 8388608, 65536, true, {2097152, 12000000, 3000000, 9437184});
    return raw.finish();
}

/* The recorder does not know how much memory it has. */
std::string recorder_unknown()
{
    RawSample raw;
    raw.records(0, [&] { raw.allocate(CALL_MALLOC, 24); });
    raw.tick(10000000, 4194304, 0, true, {0, 7000000, 2000000, 9437184});
    return raw.finish();
}

/* --- every range of units --- */

/* From the cache where a class is large enough, and at a place. */
void every_size(RawSample &raw, const std::vector<int> &allocations)
{
    fill_cache(raw);
    for (uint64_t size :
         {uint64_t{0}, uint64_t{1}, uint64_t{24}, uint64_t{0x7ff}, uint64_t{0x800}, uint64_t{0xfff},
          uint64_t{0x1000}, uint64_t{0x1fff}, uint64_t{0x2000}, uint64_t{0x7fff}, uint64_t{0x8000},
          uint64_t{UINT32_MAX}, uint64_t{1} << 32, uint64_t{1} << 60, UINT64_MAX})
        for (int kind : allocations) {
            raw.freeing(raw.lane, CALL_FREE, raw.allocate(kind, size, 32));
            raw.form = RawRecord::kGeneral;
            raw.allocate(kind, size, 32);
            raw.form = RawRecord::kShortest;
            raw.allocation_at(raw.lane, kind, size, (1 << 27) - 1, 0, 32);
        }
}

/* Places of class 0. */
void every_place(RawSample &raw, const std::vector<int> &frees)
{
    for (uint32_t place : {1, 0xfff, 0x1000, 0x9fff, 0xa000, 0xffff, 0x10000, (1 << 26) - 1,
                           1 << 26, (1 << 27) - 1}) {
        uint64_t object = raw.allocation_at(raw.lane, CALL_MALLOC, 1, place, 0);
        for (RawRecord::Form form :
             {RawRecord::kShortest, RawRecord::kNoAge, RawRecord::kFar, RawRecord::kGeneral}) {
            raw.form = form;
            for (int kind : frees)
                raw.end(kind, raw.object(object), 300, 64);
            raw.end(CALL_REALLOC_MOVED, raw.object(object), 9, 0);
            raw.end(CALL_REALLOC_IN_PLACE, raw.object(object), 9, 0);
        }
        raw.form = RawRecord::kShortest;
    }
}

/* Bounds that grow, stay, fall and are too far, of lanes with the same cache entry and with
 * another. */
void every_entry(RawSample &raw, const std::vector<int> &frees)
{
    static const std::pair<uint32_t, uint64_t> bounds[] = {{5, 9},
                                                           {5, uint64_t{1} << 41},
                                                           {5, 1},
                                                           {6, 3},
                                                           {5, 7},
                                                           {13, 1},
                                                           {5, 7},
                                                           {5, 7},
                                                           {13, 1 << 22},
                                                           {13, 1},
                                                           {13, (1 << 22) + 1}};
    fill_cache(raw);
    for (const auto &[lane, bound] : bounds)
        for (uint32_t place : {1u, (1u << 23) - 1, 1u << 23, spot(40, 7)})
            for (int kind : frees)
                raw.end(kind, RawSample::foreign(lane, bound, place, place == spot(40, 7) ? 40 : 0),
                        300, 64);
    for (int i = 0; i < 20; i++)
        raw.allocate(CALL_MALLOC, 1000);
}

/* Objects that were allocated so long ago, near, far, and in lists. */
void every_age(RawSample &raw, const std::vector<int> &frees)
{
    for (uint32_t place : {1, 0x8000, 1 << 20})
        for (uint32_t i = 0; i < 1000; i++)
            raw.allocation_at(raw.lane, CALL_MALLOC, 1, place + i, 0);
    for (uint64_t age : {1, 2, 12, 13, 48, 49, 0x100, 0x101, 0x200, 0x201, 0x800, 0x801}) {
        auto by_age = [&] {
            return raw.object(RawSample::token(raw.lane, raw.allocations(raw.lane) + 1 - age));
        };
        for (int kind : frees)
            raw.end(kind, by_age(), 300, 64);
        raw.end(CALL_REALLOC_MOVED, by_age(), 9, 0);
        raw.end(CALL_REALLOC_IN_PLACE, by_age(), 9, 0);
    }
    fill_cache(raw);
    std::vector<uint64_t> objects;
    for (int i = 0; i < 17; i++)
        objects.push_back(raw.allocate(CALL_MALLOC, 500));
    for (uint64_t object : objects)
        raw.freeing(raw.lane, CALL_FREE, object);
    for (int i = 0; i < 17; i++)
        raw.allocate(CALL_MALLOC, 600);
}

/* Every range of units at its first and last operand and beyond, in several profiles. */
std::string units()
{
    RawSample raw;
    for (const std::vector<int> &profile :
         {std::vector<int>{CALL_FREE, CALL_DELETE_SIZED, CALL_DELETE_ALIGNED, CALL_MALLOC,
                           CALL_MEMALIGN, CALL_NEW, CALL_REALLOC_MOVED, 0},
          {CALL_DELETE_SIZED_ALIGNED, CALL_FREE, 0, 0, CALL_CALLOC, CALL_MALLOC,
           CALL_REALLOC_IN_PLACE, 0},
          {0, 0, CALL_FREE, CALL_ALIGNED_ALLOC, 0, 0, 0, 0}}) {
        std::vector<int> frees(profile.begin(), profile.begin() + 3);
        std::vector<int> allocations(profile.begin() + 3, profile.begin() + 6);
        frees.push_back(CALL_FREE);
        allocations.push_back(CALL_MALLOC);
        for (std::vector<int> *kinds : {&frees, &allocations})
            kinds->erase(std::remove(kinds->begin(), kinds->end(), 0), kinds->end());
        auto every_unit = [&] {
            every_size(raw, allocations);
            every_place(raw, frees);
            every_entry(raw, frees);
        };
        raw.profile = RawSample::make_profile(profile);
        raw.packing = RawSample::kPlain;
        raw.records(0, every_unit);
        raw.packing = RawSample::kPacked;
        raw.more(0, [&] {
            every_unit();
            every_age(raw, frees);
        });
    }
    return raw.finish();
}

/* --- call stacks --- */

/* FORMAT.md 5.8; then every kind of definition, and every rule of 2.8. */
std::string stacks(uint64_t features)
{
    RawStreamHeader header = RawSample::header();
    header.features = features | 4;
    header.metadata += "stacks=all\n";
    RawSample raw(header);
    raw.records(0, [&] {
        raw.units(0, {0xf03f, 0x0001, 0x0001, 0x8000, 0x0002, 0x2000, 0x0000});
        raw.units(0, {0xf03f, 0x0003, 0x0001, 0x0006, 0x0000, 0x622f, 0x6e69, 0x612f});
        raw.units(0, {0xf03f, 0x0014, 0x0002, 0x0001, 0x0200, 0x0100});
        raw.units(0, {0xf03f, 0x0015, 0x0010, 0x0008, 0x0002, 0x0001});
        raw.units(0, {0xf300, 0x0009});
        raw.allocate(CALL_MALLOC, 24);
        raw.units(0, {0xf300, 0x0009}); /* the latter holds, also before one that fails */
        raw.units(0, {0xf03e, 0x7fff});
        raw.units(0, {0xf036, CALL_MALLOC, 0x7fff});
        uint64_t object = raw.allocate(CALL_MALLOC, 25); /* which has none */
        raw.units(0, {0xf300, 0x0002});
        raw.freeing(0, CALL_FREE, raw.allocate(CALL_MALLOC, 26));
        raw.units(0, {0xf3ff, 0xffff}); /* not of what comes in between, unless frees have them */
        raw.freeing(0, CALL_FREE, object);
        object = raw.allocate(CALL_CALLOC, 27);
        raw.units(0, {0xf03e, 0xffff, 0x1fff}); /* the greatest, which nothing defines */
        raw.end(CALL_REALLOC_MOVED, raw.object(object), 28, 0);
        raw.units(0, {0xf300, 0x0009}); /* taken back */
        raw.thread_begin(0, 4711);
        raw.allocate(CALL_MALLOC, 29);
        raw.units(0, {0xf300, 0x0009});
        raw.lost(0, 1, 0);
        raw.allocate(CALL_MALLOC, 30);
    });
    raw.records(
        3, [&] { /* numbers are those of all lanes; differences begin anew */
                 raw.units(3, {0xf300, 0x000a});
                 raw.allocate(CALL_MALLOC, 31);
                 raw.units(3, {0xf03f, 0x000d, 0x0014, 0x0001, 0x8000,
                               0x0001}); /* node 10 is code 2^15 */
                 raw.units(3, {0xf03f, 0x000c, 0x0006, 0x0000, 0xfffe, 0xffff, 0xffff, 0x7fff});
                 raw.units(3, {0xf03f, 0x000d, 0x0004, 0x0004, 0x0003});
        });
    raw.packing = RawSample::kPacked;
    raw.records(3, [&] {
        std::vector<uint16_t> build_id = {0xf03f, 0x000b, 0x0001, 0x0005,
                                          0x0000, 0x0100, 0x0302, 0x0004};
        std::vector<uint16_t> piece = {0xf03f, 0x0013, 0x8000, 0x0001, 0x0041, 0x0000};
        raw.units(3, build_id);
        for (uint16_t i = 0; i < 32; i++)
            piece.push_back(static_cast<uint16_t>(0x6161 + i * 257));
        raw.units(3, piece);
        raw.units(3, {0xf03f, 0x0013, 0x8000, 0x0001, 0x0041, 0x0040, 0x000a});
        raw.units(3, {0xf03f, 0x0002, 0x0001});
        raw.units(3, {0xf300, 0x000b});
        raw.allocate(CALL_MALLOC, 32);
        raw.units(3, {0xf300, 0x0008});
    });
    raw.more(3, [&] { raw.allocate(CALL_MALLOC, 33); });
    RawEnd end;
    end.events = raw.events() + 1; /* that failed */
    end.lost = 1;
    return raw.finish(end);
}

/* FORMAT.md 2.8 and 5.8, functions of an interpreter; then what a recorder never writes: names with
 * bytes that are no letters, lines that are large, languages that nobody knows, also of a module
 * without a path and of codes without names. */
std::string source_code()
{
    RawStreamHeader header = RawSample::header();
    header.features = 4;
    header.metadata += "stacks=all\n";
    RawSample raw(header);
    raw.records(0, [&] {
        raw.units(0, {0xf03f, 0x0001, 0x0001, 0x8000, 0x0002, 0x2000, 0x0000});
        raw.units(0, {0xf03f, 0x0003, 0x0001, 0x0006, 0x0000, 0x622f, 0x6e69, 0x612f});
        raw.units(0, {0xf03f, 0x001b, 0x0001, 0x0006, 0x0000, 0x7970, 0x6874, 0x6e6f});
        raw.units(0, {0xf03f, 0x0014, 0x0002, 0x0001, 0x0200, 0x0100});
        raw.units(0, {0xf03f, 0x0001, 0x0002, 0x0000, 0x0000, 0x0000});
        raw.units(0, {0xf03f, 0x001b, 0x0002, 0x0006, 0x0000, 0x7970, 0x6874, 0x6e6f});
        raw.units(0, {0xf03f, 0x0003, 0x0002, 0x0004, 0x0000, 0x2e61, 0x7970});
        raw.units(0, {0xf03f, 0x000c, 0x0000, 0x0002, 0x8004, 0x8000, 0x0008});
        raw.units(0, {0xf03f, 0x0013, 0x0003, 0x0001, 0x0000, 0x0066});
        raw.units(0, {0xf03f, 0x001d, 0x0010, 0x0008, 0x0001, 0x0003, 0x0002});
        raw.units(0, {0xf300, 0x000a});
        raw.allocate(CALL_MALLOC, 24);
        raw.units(0, {0xf03f, 0x0001, 0x0003, 0x0005, 0x0000, 0x0000});
        raw.units(0, {0xf03f, 0x001b, 0x0003, 0x0004, 0x0000, 0x0900, 0xff0a});
        raw.units(0, {0xf03f, 0x000c, 0x0000, 0x0003, 0xfffe, 0xffff, 0xffff, 0x7fff});
        raw.units(0, {0xf03f, 0x000c, 0x0000, 0x0003, 0x0000});
        raw.units(0, {0xf03f, 0x0013, 0x0005, 0x0006, 0x0000, 0x0900, 0xff0a, 0x1b5b});
        raw.units(0, {0xf03f, 0x0015, 0x0000, 0x0001, 0x0004, 0x0005});
        raw.units(0, {0xf300, 0x000c});
        raw.allocate(CALL_MALLOC, 25);
    });
    return raw.finish();
}

/* --- what is special --- */

/* A later minor version: info bits and chunk types that nobody knows yet. */
std::string minor()
{
    RawStreamHeader header = RawSample::header();
    header.minor = 7;
    header.info = uint64_t{1} << 63;
    RawSample raw(header);
    raw.chunk(77, 0, 0, "whatever", 0, 0, 0);
    raw.records(0, [&] { raw.allocate(CALL_MALLOC, 1); });
    return raw.finish();
}

/* Numbers and packed units in longer forms than a writer may use: malloc(1) at place 5 the long
 * way, and its free. */
std::string long_numbers()
{
    RawSample raw;
    std::string codes(8, '\0');
    const uint16_t units[] = {0xf001, 0x8001, 0x8000, 0, 0x8005, 0, 0x8000, 0, 0xf015, 0x8005, 0};
    for (uint16_t unit : units) {
        bytes::put(codes, 255, 1);
        bytes::put(codes, unit, 2);
    }
    raw.chunk(1, 7, 0, codes, std::size(units), 0, 0);
    raw.chunk(3, 0, 0, encode_end({0, 9, 2, 0, 0, 0, {std::size(units)}}), 0, 0, 0);
    return raw.bytes;
}

void put_all(std::string &to, const std::vector<uint64_t> &numbers)
{
    for (uint64_t number : numbers)
        bytes::put_varint(to, number);
}

/* Mappings and residencies, in windows of their own and beside calls (FORMAT.md 4.5, 4.6). */
std::string mappings()
{
    RawStreamHeader header = RawSample::header();
    header.info = 1;
    RawSample raw(header);
    raw.chunk(4, 0, 0, mapping_records(), 40, 0, 0);
    raw.records(0, [&] { raw.allocate(CALL_MALLOC, 24); });
    raw.chunk(4, 0, 0, mapping_records(), 40, 40, 0);
    raw.chunk(5, 0, 0, residency_areas(), 0, 0, 0);
    raw.tick(10000000, 4194304, 0);
    raw.chunk(4, 0, 0, "", 0, 80, 0);
    raw.chunk(5, 0, 0, residency_areas(), 0, 0, 0);
    return raw.finish();
}

/* Memory that was there when recording began, in a chunk without a cell, and what is in it later. */
std::string found()
{
    RawStreamHeader header = RawSample::header();
    header.info = 1;
    RawSample raw(header);
    std::string records, areas;
    put_all(records, {11, 0, bytes::zigzag(0x10000), 8192, 3, 0, 0});
    put_all(records, {11, 0, bytes::zigzag(0x10000), 4096, 1, 0, 0});
    put_all(areas, {10000000, 1, 4096, 2});
    put_all(areas, {3 + 256, 16, 2, 8, 8, 8, 8, 0, 0, 0, 0});
    put_all(areas, {3 + 256 + 64, 14, 4, 4, 4, 4, 4, 0, 0, 0, 0, 1, 2, 1});
    raw.chunk(4, 0, 0, records, 0, 0, 0);
    raw.records(0, [&] { raw.allocate(CALL_MALLOC, 24); });
    raw.chunk(5, 0, 0, areas, 0, 0, 0);
    raw.tick(10000000, 4194304, 0);
    return raw.finish();
}

/* Which pages of large objects were resident: of two, the second time more, and of one of the same size
 * as another one (FORMAT.md 4.5). */
std::string touched_up_to(uint64_t pages)
{
    RawStreamHeader header = RawSample::header();
    header.info = 1;
    RawSample raw(header);
    std::string records;
    auto record = [&records](uint64_t calls, uint64_t bytes, const std::vector<uint64_t> &runs) {
        std::string name;
        uint64_t resident = 0;
        put_all(name, runs);
        for (size_t i = 1; i < runs.size(); i += 2)
            resident += runs[i];
        put_all(records,
                {12 + 16 * 12, 7, 0, bytes, 0, 0, 0, 0, calls, resident, 0, 0, name.size()});
        records += name;
    };
    record(2, 1000000, {0, 1});
    record(2, 1000000, {0, 1, 100, pages});
    record(2, 1000000, {});
    record(3, 262144, {64, 1});
    raw.chunk(4, 0, 0, records, 0, 0, 0);
    raw.records(0, [&] {
        raw.allocate(CALL_MALLOC, 24);
        raw.allocate(CALL_MALLOC, 1000000);
        raw.allocate(CALL_CALLOC, 262144);
        const uint64_t object = raw.allocate(CALL_MALLOC, 1000000);
        raw.allocate(CALL_MALLOC, 2000000);
        raw.end(CALL_REALLOC_MOVED, raw.object(object), 262144, 0);
    });
    raw.tick(10000000, 4194304, 0);
    return raw.finish();
}

/* More frees than a list has room for, then allocations that say their places, until the cache is
 * known again. */
std::string list_end()
{
    RawSample raw;
    raw.records(0, [&] {
        raw.cache_begin(0);
        raw.size_class(0, 1, 8);
        uint64_t object = raw.allocation_at(0, CALL_MALLOC, 1, 64, 1);
        for (int i = 0; i < 65536; i++)
            raw.freeing(0, CALL_FREE, object);
        raw.allocation_at(0, CALL_MALLOC, 1, 65, 1);
        raw.cache_begin(0);
        raw.cached(0, 1, {66});
        raw.allocate(CALL_MALLOC, 1);
    });
    return raw.finish();
}

} // namespace

std::string mapping_records()
{
    const uint64_t at = 0x10000, lane = 16 * 8, file = 16 * 4, own = 16 * 2, failed = 16;
    const uint64_t ago = bytes::zigzag(-static_cast<int64_t>(at));
    std::string to;
    /* The example of FORMAT.md. */
    put_all(to, {1 + lane, 7, bytes::zigzag(at), 8192, 3, 0x22, 9, 0, 3});
    put_all(to, {1 + file + own, 7, 0, 4096, 1, 2, 0, 8192, 65024, UINT64_MAX, 6});
    to += "/bin/a";
    put_all(to, {1 + file + failed, 7, 0, 1, 1, 2, 0, 0, 0, 5, 8});
    to += "/a \x1b[2J\xe9";
    put_all(to, {2 + 16 * 15, 8, ago, UINT64_MAX, 0, 0, (1u << 28) - 1, 65535,
                 (uint64_t{1} << 42) - 1, 0, 0, 0, 0});
    put_all(to, {3, 8, 0, 8192, 0, 1, 0});
    put_all(to, {4, 8, bytes::zigzag(-4096), 16384, 0, 1, 0});
    put_all(to, {5, 8, 0, 4096, 4, 0, 0});
    put_all(to, {6, 8, 0, 4096, UINT32_MAX, 0, 0});
    put_all(to, {7 + file, 9, 0, 65536, 3, 0, 0, 0, 0, 4711, 0});
    put_all(to, {8, 9, 0, 0, 0, 0, 0});
    put_all(to, {9, UINT32_MAX, 0, 0, 0, UINT32_MAX, 0});
    put_all(to, {10, 0, 0, 3, 0, 0, 0});
    return to;
}

std::string residency_areas()
{
    std::string to;
    /* Pages, KiB, and what the kernel says of the file. */
    put_all(to, {123456789, 1 + 8, 4096, 6});
    put_all(to, {5 + 32, 16, 4, 16, 8, 0, 0, 0, 0, 0, 4096, 65024, 7, 6});
    to += "/bin/a";
    put_all(to, {3 + 32 + 128, 0, 1, 4, 4, 4, 4, 0, 0, 0, 69632});
    put_all(to, {3 + 128, 0, 1, 4, 4, 4, 4, 0, 0, 0});
    put_all(to, {3 + 64, 0, 10, 12, 12, 12, 12, 0, 4, 4, 0, 2, 1, 1, 3, 2});
    put_all(to, {3 + 8 + 16, 1 << 20, 1, 4, 4, 4, 0, 0, 0, 0, 9});
    to += "[anon:\n]1";
    put_all(to, {0, 0, 2, 0, 0, 0, 0, 0, 8, 0, 0});
    return to;
}

void add_raw_samples(Samples *samples)
{
    RawEnd lossy, waited;
    lossy.lost = waited.lost = 6;
    waited.waits = 7;
    waited.waited = 8;
    samples->insert(samples->end(),
                    {{"raw_example", example},
                     {"raw_empty", empty},
                     {"raw_everything", [waited] { return everything(false).finish(waited); }},
                     {"raw_addresses", [lossy] { return everything(true).finish(lossy); }},
                     {"raw_cut", [] { return everything(false).bytes; }},
                     {"raw_minor", minor},
                     {"raw_usage", usage},
                     {"raw_mappings", mappings},
                     {"raw_found", found},
                     {"raw_touched", [] { return touched_up_to(2); }},
                     {"verify_touched_raw", [] { return touched_up_to(200); }},
                     {"raw_recorder_unknown", recorder_unknown},
                     {"raw_long_numbers", long_numbers},
                     {"raw_list_end", list_end},
                     {"raw_stacks", [] { return stacks(0); }},
                     {"raw_stacks_addresses", [] { return stacks(1); }},
                     {"raw_free_stacks", [] { return stacks(8); }},
                     {"raw_source_code", source_code},
                     {"raw_units", units}});
}
