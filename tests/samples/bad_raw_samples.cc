/* Raw streams that every reader refuses. */
#include "tests/samples/raw_sample.h"
#include "tests/samples/samples.h"

namespace {

using Units = std::vector<uint16_t>;
using Write = std::function<void(RawSample &)>;

/* One chunk with units that are not allowed, behind a malloc at place 1; the cache is known, but
 * nothing is in it. */
std::string bad_units(RawSample raw, const Units &units, const Write &before = nullptr)
{
    raw.records(0, [&] {
        raw.cache_begin(0);
        raw.allocate(CALL_MALLOC, 1);
        if (before) before(raw);
        raw.units(0, units);
    });
    return raw.finish();
}

std::string bad_packed(const Units &units, const Write &before = nullptr)
{
    RawSample raw;
    raw.packing = RawSample::kPacked;
    return bad_units(raw, units, before);
}

std::string bad_profile(const std::vector<int> &profile)
{
    RawSample raw;
    raw.profile = RawSample::make_profile(profile);
    return bad_units(raw, {});
}

/* A stream of one chunk. */
std::string one_chunk(const Write &write)
{
    RawSample raw;
    raw.records(0, [&] { write(raw); });
    return raw.finish();
}

/* The whole payload behind an empty profile, of so many units. */
std::string payload(int flags, const std::string &bytes, uint32_t units)
{
    RawSample raw;
    raw.chunk(1, flags, 0, std::string(8, '\0') + bytes, units, 0, 0);
    return raw.finish();
}

const struct {
    const char *name;
    Units units;
} kBadUnits[] = {
    {"unit", {0xf3ff, 1}},
    {"stack", {0xf300, 1}},
    {"define", {0xf03f, 2, 1}},
    {"zero", {0}},
    {"range", {0xa001}},
    {"range_zero", {0xa000}},
    {"place_zero", {0xd800, 0}},
    {"way", {0xec00, 1, 128}},
    {"crossing", {0xf103}},
    {"number_size", {0xf001, 0xffff, 0xffff, 0xffff, 0xffff, 16, 1, 0}},
    {"general_sequence", {0xf033, 3, 1}},
    {"age_in_plain", {0xf800}},
    {"place_limit", {0xf001, 1, 0x8000, 0x8000, 4, 0}}, /* 2^32 */
    {"place_class", {0xf001, 1, 2, 128}},
    {"not_told", {0xf001, 1, 64, 1}},
    {"own_elsewhere", {0x0040}},
    {"own_zero", {0xf015, 0}},
    {"own_limit", {0xf015, 0x8000, 0x8000, 4, 0}},
    {"foreign_itself", {0xf055, 0, 1, 1, 0}},
    {"foreign_lane", {0xf055, 0x8000, 2, 1, 1, 0}}, /* 65 536 */
    {"foreign_place", {0xf055, 1, 1, 0, 0}},
    {"foreign_class", {0xf055, 1, 1, 70, 3}},
    {"foreign_and_unknown", {0xf0d5, 0, 0}},
    {"unknown_class", {0xf095, 0, 1}},
    {"bit", {0xf041, 1, 1, 0}},
    {"failed_free", {0xf036, 21, 1}},
    {"failed_own", {0xf036, 18, 64, 1}},
    {"allocation_not_told", {0x8001}},
    {"class_zero", {0xf038, 0, 8}},
    {"class_limit", {0xf038, 128, 8}},
    {"class_bytes", {0xf038, 1, 0}},
    {"class_twice", {0xf038, 1, 8, 0xf038, 1, 9}},
    {"class_same", {0xf038, 1, 8, 0xf038, 2, 8}},
    {"class_too_small", {0xf038, 1, 8, 0xf03a, 1, 1, 64, 0x8009}},
    {"cached_none", {0xf038, 1, 8, 0xf03a, 1, 0}},
    {"cached_many", {0xf038, 1,  8,  0xf03a, 1,  17, 64, 65, 66, 67, 68, 69,
                     70,     71, 72, 73,     74, 75, 76, 77, 78, 79, 80}},
    {"cached_zero", {0xf038, 1, 8, 0xf03a, 1, 1, 0}},
    {"cached_below", {0xf038, 1, 8, 0xf03a, 1, 2, 64, 127}},
    {"cached_limit", {0xf038, 1, 8, 0xf03a, 1, 2, 0xffff, 0xffff, 3, 2}}, /* 2^32 - 1, one more */
    {"cached_not_told", {0xf03a, 1, 1, 64}},
    {"cached_class", {0xf038, 1, 8, 0xf03a, 1, 1, 63}}, /* a block of class 0 */
    {"uncached_none", {0xf038, 1, 8, 0xf03a, 1, 1, 64, 0xf03b, 1, 0}},
    {"uncached_not_told", {0xf03b, 1, 1}},
    {"other_class", {0xf038, 1, 8, 0xf038, 2, 16, 0xf03a, 1, 1, 64, 0xf001, 9, 65, 2}},
    {"known_no_more", {0xf038, 1, 8, 0xf03a, 1, 1, 64, 0xf032, 0x8008}},
    {"lost_cache", {0xf038, 1, 8, 0xf03a, 1, 1, 64, 0xf035, 0, 0, 0x8008}}};

/* In a stream that has call stacks. */
const struct {
    const char *name;
    Units units;
} kBadStacks[] = {
    {"stack_zero", {0xf300, 0}},
    {"stack_none", {0xf03e, 0}},
    {"stack_limit", {0xf03e, 0x8000, 0x8000, 0}}, /* in too long a form, and 0 */
    {"stack_large", {0xf03e, 0x8000, 0xa000, 0}}, /* 2^28 */
    {"stack_bit", {0xf07e, 1}},
    {"stack_crossing", {0xf300}},
    {"what_zero", {0xf03f, 0, 1}},
    {"what_six", {0xf03f, 6, 1}},
    {"module_zero", {0xf03f, 1, 0, 0, 0, 0}},
    {"module_limit", {0xf03f, 1, 0x8000, 2, 0, 0, 0}},
    {"module_count", {0xf03f, 9, 1, 0, 0, 0}},
    {"module_end", {0xf03f, 1, 1, 0xffff, 0xffff, 0xffff, 0xffff, 15, 1, 0}},
    {"module_twice", {0xf03f, 1, 1, 0, 0, 0, 0xf03f, 1, 1, 0, 0, 0}},
    {"unloaded_zero", {0xf03f, 2, 0}},
    {"unloaded_count", {0xf03f, 10, 1}},
    {"text_whose", {0xf03f, 35, 1, 1, 0, 0}},
    {"language_module", {0xf03f, 27, 0, 1, 0, 0}},
    {"language_twice", {0xf03f, 27, 1, 1, 0, 97, 0xf03f, 27, 1, 1, 0, 97}},
    {"text_module", {0xf03f, 3, 0, 1, 0, 0}},
    {"text_code", {0xf03f, 19, 0, 1, 0, 0}},
    {"text_empty", {0xf03f, 3, 1, 0, 0}},
    {"text_long", {0xf03f, 3, 1, 0x8000, 1, 0, 0}},
    {"text_build_id", {0xf03f, 11, 1, 65, 64, 0}},
    {"text_offset", {0xf03f, 3, 1, 2, 1, 0}},
    {"text_behind", {0xf03f, 3, 1, 64, 64}},
    {"text_byte", {0xf03f, 3, 1, 1, 0, 0x0161}},
    {"text_short", {0xf03f, 3, 1, 3, 0, 0x6161}},
    {"text_twice", {0xf03f, 3, 1, 1, 0, 97, 0xf03f, 3, 1, 1, 0, 97}},
    {"codes_none", {0xf03f, 4, 2, 1}},
    {"codes_many", {0xf03f, 76, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
    {"codes_zero", {0xf03f, 12, 0, 1, 0}},
    {"codes_before", {0xf03f, 12, 1, 1, 0}}, /* -1 */
    {"codes_module", {0xf03f, 12, 2, 0x8000, 2, 0}},
    {"codes_offset", {0xf03f, 12, 2, 1, 0x8000, 0x8000, 0x8000, 0x8000, 1}}, /* 2^59 */
    {"codes_offset_before", {0xf03f, 12, 2, 1, 1}},                          /* -1 */
    {"codes_twice", {0xf03f, 12, 2, 1, 0, 0xf03f, 20, 1, 1, 0, 0}},
    {"nodes_none", {0xf03f, 5, 16, 1}},
    {"nodes_many", {0xf03f, 141, 16, 8, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
    {"nodes_low", {0xf03f, 13, 14, 7, 1}},
    {"nodes_limit", {0xf03f, 21, 0xfffe, 0xbfff, 0, 1, 1, 1}}, /* from 2^28 - 1 on */
    {"nodes_itself", {0xf03f, 13, 16, 0, 1}},
    {"nodes_parent", {0xf03f, 13, 16, 9, 1}}, /* -1 */
    {"nodes_code", {0xf03f, 13, 16, 8, 0}},
    {"nodes_code_limit", {0xf03f, 13, 16, 8, 0x8000, 0xa000, 0}},
    {"nodes_twice", {0xf03f, 13, 16, 8, 1, 0xf03f, 13, 1, 8, 1}}};

std::string bad_stacks(const Units &units)
{
    RawStreamHeader header = RawSample::header();
    header.features = 4;
    return bad_units(RawSample(header), units);
}

std::string first_run() /* which is not key */
{
    RawSample raw;
    raw.key = 0;
    raw.records(0, [&] { raw.allocate(CALL_MALLOC, 1); });
    return raw.finish();
}

std::string allocations()
{
    RawSample raw;
    raw.records(0, [&] { raw.units(0, {0xf001, 1, 1, 0}); }); /* counted by nobody */
    raw.records(0, [&] { raw.units(0, {0xf001, 1, 2, 0}, 1); });
    raw.records(0, [&] { raw.units(0, {0xf001, 1, 3, 0}); });
    return raw.finish();
}

std::string feature()
{
    RawStreamHeader header = RawSample::header();
    header.features = 16;
    return RawSample(header).finish();
}

/* One chunk of mappings (4) or of residency (5). */
std::string address_space(int type, const std::vector<uint64_t> &numbers, uint64_t first = 0,
                          uint32_t cells = 0)
{
    RawSample raw;
    std::string payload;
    for (uint64_t number : numbers)
        bytes::put_varint(payload, number);
    raw.chunk(type, 0, 0, payload, cells, first, 0);
    return raw.finish();
}

void one_malloc(RawSample &raw)
{
    raw.allocate(CALL_MALLOC, 24);
}

std::string checksum()
{
    std::string stream = one_chunk(one_malloc);
    stream.back() = static_cast<char>(stream.back() ^ 2);
    return stream;
}

/* The end chunk counts one malloc more than there is. */
std::string totals()
{
    RawSample raw;
    RawEnd end;
    end.events = 2;
    raw.records(0, [&] { one_malloc(raw); });
    return raw.finish(end);
}

} // namespace

void add_bad_raw_samples(Samples *samples)
{
    for (const auto &bad : kBadUnits)
        samples->push_back({std::string("raw_bad_") + bad.name,
                            [&bad] { return bad_units(RawSample(), bad.units); }});
    for (const auto &bad : kBadStacks)
        samples->push_back(
            {std::string("raw_bad_") + bad.name, [&bad] { return bad_stacks(bad.units); }});
    const Sample more[] = {
        {"profile",
         [] {
             return bad_profile({CALL_MALLOC, 0, 0, 0, 0, 0, 0, 0});
         }},
        {"profile_end",
         [] {
             return bad_profile({0, 0, 0, 0, 0, 0, 0, CALL_FREE});
         }},
        {"age", [] { return bad_packed({0xf801}); }},
        {"age_lost", [] { return bad_packed({0xf800}, [](RawSample &r) { r.lost(0, 1, 1); }); }},
        {"age_range", [] { return bad_packed({0xf400}); }},
        {"age_unit",
         [] {
             return bad_packed({0xf3ff, 1});
         }},
        /* The age of an object that was allocated where nobody knows. */
        {"age_place",
         [] {
             return bad_packed({0xf800}, [](RawSample &raw) {
                 raw.end(CALL_REALLOC_IN_PLACE, RawSample::unknown(), 1, 0);
             });
         }},
        {"packed", [] { return payload(7, "\xff\x31\xf0\x01", 1); }}, /* a byte too many */
        {"packed_few", [] { return payload(7, "\xff\x31\xf0", 3); }}, /* nothing is three units */
        {"cache",
         [] { return one_chunk([](RawSample &r) { r.units(0, {0x8001}); }); }}, /* unknown */
        {"first_run", first_run},
        {"allocations", allocations},
        {"number", [] { return one_chunk([](RawSample &r) { r.units(0, {0xf02f}); }); }},
        {"structure", [] { return one_chunk([](RawSample &r) { r.sequence(0, 51, 128, 1); }); }},
        {"rest", [] { return payload(3, std::string("\x31\xf0\0", 3), 1); }}, /* a byte too many */
        {"mapping_what",
         [] {
             return address_space(4, {0, 1, 0, 0, 0, 0, 0});
         }},
        {"mapping_undefined",
         [] {
             return address_space(4, {13, 1, 0, 0, 0, 0, 0});
         }},
        {"mapping_flags",
         [] {
             return address_space(4, {1 + 256, 1, 0, 0, 0, 0, 0});
         }},
        {"mapping_short",
         [] {
             return address_space(4, {1, 1, 0, 0, 0, 0});
         }},
        {"mapping_word",
         [] {
             return address_space(4, {1, 1, 0, 0, uint64_t{1} << 32, 0, 0});
         }},
        {"mapping_stack",
         [] {
             return address_space(4, {1, 1, 0, 0, 0, 0, 1u << 28});
         }},
        {"mapping_lane",
         [] {
             return address_space(4, {1 + 128, 1, 0, 0, 0, 0, 0, 65536, 0});
         }},
        {"mapping_name",
         [] {
             return address_space(4, {1 + 64, 1, 0, 0, 0, 0, 0, 0, 0, 0, 9});
         }},
        {"mapping_gap",
         [] {
             return address_space(4, {1, 1, 0, 0, 0, 0, 0}, 1);
         }},
        {"residency_why",
         [] {
             return address_space(5, {0, 4, 4096, 0});
         }},
        {"residency_page",
         [] {
             return address_space(5, {0, 0, 4095, 0});
         }},
        {"residency_short",
         [] {
             return address_space(5, {0, 0, 4096, 1});
         }},
        {"residency_empty",
         [] {
             return address_space(5, {0, 0, 4096, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
         }},
        {"residency_place",
         [] {
             return address_space(5,
                                  {0, 0, 4096, 1, 0, uint64_t{1} << 52, 1, 0, 0, 0, 0, 0, 0, 0, 0});
         }},
        {"residency_run",
         [] {
             return address_space(5, {0, 0, 4096, 1, 64, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2});
         }},
        {"residency_no_run",
         [] {
             return address_space(5, {0, 0, 4096, 1, 64, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0});
         }},
        {"residency_rest",
         [] {
             return address_space(5, {0, 0, 4096, 0, 0});
         }},
        {"residency_cells",
         [] {
             return address_space(5, {0, 0, 4096, 0}, 0, 1);
         }},
        {"feature", feature},
        {"checksum", checksum},
        {"totals", totals}};
    for (const Sample &sample : more)
        samples->push_back({"raw_bad_" + sample.name, sample.write});
}
