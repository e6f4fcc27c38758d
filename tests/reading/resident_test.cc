// resident_test - areas of a process, and who has what is resident of them: by the mappings that were
// recorded, or as the shape of the area tells.
#include "reading/resident.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace {

constexpr uint64_t kPage = 4096;
constexpr uint32_t kData = RESIDENCY_READ | RESIDENCY_WRITE;

const char *const kOwners[] = {
#define OWNER_NAME(identifier, name) name,
    RESIDENT_LIST(OWNER_NAME)
#undef OWNER_NAME
};

struct Area {
    uint64_t start, end; // pages
    uint64_t resident;   // pages
    std::string name = {};
    std::vector<residency_run> runs = {};
    uint32_t protection = kData;
    uint64_t anonymous = 0; // KiB
    bool is_recorder = false;
    bool is_heap = false;
};

class Resident : public testing::Test {
  protected:
    Resident() { table.page_bytes = kPage; }
    ~Resident() override { mapping_table_free(&table); }

    void map(uint64_t page, uint64_t pages, uint32_t stack, bool own = false,
             unsigned what = MAPPING_MAP)
    {
        mapping_record record{};
        record.what = static_cast<uint8_t>(what);
        record.address = page * kPage;
        record.length = pages * kPage;
        record.stack = stack;
        record.own = own;
        mapping_table_take(&table, &record);
    }

    // "heap 8; mapped 9 4": the owners of all areas, and their pages; of what is mapped, the stack.
    std::string divide(const std::vector<Area> &areas)
    {
        std::string payload, text;
        uint64_t latest = 0, resident_kib = 0, found = 0;
        for (const Area &one : areas) {
            residency_area area{};
            area.start = one.start;
            area.end = one.end;
            area.protection = one.protection;
            area.resident = one.resident * kPage / 1024;
            area.anonymous = one.anonymous;
            area.is_recorder = one.is_recorder;
            area.is_heap = one.is_heap;
            area.has_file = !one.name.empty() && one.name[0] == '/';
            area.name = one.name.data();
            area.name_bytes = static_cast<uint32_t>(one.name.size());
            area.has_runs = !one.runs.empty();
            area.runs = one.runs.size();
            resident_kib += area.resident;
            std::vector<uint8_t> room(RESIDENCY_AREA_BYTES_MAX +
                                      one.runs.size() * RESIDENCY_RUN_BYTES_MAX);
            uint8_t *at = residency_put_area(room.data(), &area, &latest);
            for (const residency_run &run : one.runs)
                at = residency_put_run(at, &run);
            payload.append(room.begin(), room.begin() + (at - room.data()));
        }
        const size_t bytes = payload.size();
        payload.append(16, '\0'); // a varint may touch them
        residency head{};
        head.page_bytes = kPage;
        head.areas = areas.size();
        parts.clear();
        names.clear();
        dividing.put = [](void *of, const resident_part *part) {
            auto *test = static_cast<Resident *>(of);
            test->parts.push_back(*part);
            test->names.emplace_back(part->name != nullptr ? part->name : "", part->name_bytes);
        };
        dividing.of = this;
        const auto *from = reinterpret_cast<const uint8_t *>(payload.data());
        EXPECT_STREQ(resident_divide(&dividing, &table, &head, from, from + bytes), nullptr);
        for (const resident_part &part : parts) {
            found += part.resident;
            text += std::string(text.empty() ? "" : "; ") + kOwners[part.owner] + " " +
                    (part.stack != 0 ? std::to_string(part.stack) + " " : "") +
                    std::to_string(part.resident * 1024 / kPage);
        }
        EXPECT_EQ(found, resident_kib);
        return text;
    }

    mapping_table table{};
    resident_dividing dividing{};
    std::vector<resident_part> parts;
    std::vector<std::string> names;
};

TEST_F(Resident, WhatIsMappedIsDividedByRuns)
{
    map(100, 10, 7);
    map(110, 10, 8);
    map(120, 10, 0, true);
    EXPECT_EQ(divide({{100, 130, 30}}), "mapped 7 10; mapped 8 10; heap 10");
    EXPECT_EQ(divide({{100, 130, 9, "", {{5, 8}, {12, 1}}}}), "mapped 7 5; mapped 8 3; heap 1");
    EXPECT_FALSE(dividing.is_estimate);
    EXPECT_EQ(divide({{100, 130, 20}}), "mapped 7 6; mapped 8 6; heap 6");
    EXPECT_TRUE(dividing.is_estimate);
}

TEST_F(Resident, WhatWasThereBeforeTheRecording)
{
    map(1000, 30, 0, false, MAPPING_FOUND);
    EXPECT_EQ(divide({{1000, 1030, 30}}), "mapped 30");
    EXPECT_EQ(names[0], "(before the recording)");
    EXPECT_EQ(divide({{1000, 1030, 30, "", {}, kData, 0, false, true}}), "heap 30");
    EXPECT_EQ(divide({{1000, 1030, 3, "", {{27, 3}}}}), "stack 3");
    map(1010, 10, 5);
    EXPECT_EQ(divide({{1000, 1030, 30, "", {}, kData, 0, false, true}}),
              "heap 10; mapped 5 10; heap 10");
    EXPECT_EQ(divide({{3000, 3030, 30}}), "unowned 30");
}

TEST_F(Resident, WhatNobodyMappedIsJudgedByItsShape)
{
    const uint64_t arena = (uint64_t{64} << 20) / kPage;
    dividing.is_libc = dividing.is_glibc = true;
    dividing.large_bytes = 40 * kPage;
    EXPECT_EQ(divide({{arena, arena + 40, 30, "", {{0, 30}}}}), "heap 30");
    EXPECT_EQ(divide({{1000, 3048, 3, "", {{2045, 3}}}}), "stack 3");
    EXPECT_EQ(divide({{5000, 5030, 30}, {6000, 6030, 30}}), "heap 30; unowned 30");
    EXPECT_EQ(divide({{5000, 5004, 4}}), "heap 4");
    dividing.large_bytes = 0;
    EXPECT_EQ(divide({{5000, 5004, 4}}), "libc 4");
    dividing.is_libc = dividing.is_glibc = false;
    dividing.large_bytes = 400 * kPage;
    EXPECT_EQ(divide({{arena, arena + 40, 30, "", {{0, 30}}}}), "unowned 30");
    // A mapping beside memory that libc has mapped: the kernel has made one area of both.
    map(200, 100, 5);
    EXPECT_EQ(divide({{200, 340, 140}}), "mapped 5 100; unowned 40");
}

TEST_F(Resident, NamesOfTheKernel)
{
    EXPECT_EQ(divide({{100, 110, 4, "[heap]"}, {120, 130, 2, "[stack]"}}), "libc 4; stack 2");
    dividing.moves_break = true;
    EXPECT_EQ(divide({{100, 110, 4, "[heap]"}}), "heap 4");
    dividing.is_libc = true;
    EXPECT_EQ(divide({{100, 110, 4, "[anon: glibc: malloc arena]"},
                      {120, 130, 2, "[anon: glibc: pthread stack: 7]"},
                      {140, 150, 1, "[anon: glibc: loader malloc]"},
                      {160, 170, 3, "[anon:pool]"}}),
              "heap 4; stack 2; libc 1; mapped 3");
    EXPECT_EQ(names[3], "[anon:pool]");
    map(200, 10, 9);
    EXPECT_EQ(divide({{200, 210, 10, "/dev/zero (deleted)", {}, kData | RESIDENCY_SHARED},
                      {220, 230, 5, "/memfd:x (deleted)", {}, kData | RESIDENCY_SHARED}}),
              "shared 9 10; shared 5");
    EXPECT_EQ(divide({{100, 110, 8, "", {}, kData, 0, true}}), "recorder 8");
}

TEST_F(Resident, FilesHaveCodeConstantsAndData)
{
    const uint32_t read = RESIDENCY_READ, code = RESIDENCY_READ | RESIDENCY_EXECUTE;
    EXPECT_EQ(divide({{10, 20, 10, "/lib/a", {}, code},
                      {20, 30, 10, "/lib/a", {}, read, 8},
                      {30, 40, 10, "/lib/a"},
                      {40, 60, 3, "", {{0, 3}}},
                      {60, 100, 40, "/lib/libmalloctape.so", {}, code}}),
              "file 10; file 2; file 8; file 10; file 3; recorder 40");
    const resident_kind kinds[] = {RESIDENT_CODE, RESIDENT_DATA, RESIDENT_CONSTANTS, RESIDENT_DATA,
                                   RESIDENT_DATA};
    for (size_t i = 0; i < 5; i++) {
        EXPECT_EQ(parts[i].kind, kinds[i]) << i;
        EXPECT_EQ(names[i], "/lib/a") << i;
    }
}

} // namespace
