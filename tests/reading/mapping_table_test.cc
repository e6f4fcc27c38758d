// mapping_table_test - what is mapped against a plain list of pages: calls at random, in whole pages
// and not, that fail, replace and overlap; and how areas are divided.
#include "reading/mapping_table.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace {

constexpr uint64_t kPage = 4096, kPages = 96;

mapping_record make(unsigned what, uint64_t address, uint64_t length, uint32_t flags = 0)
{
    mapping_record record{};
    record.what = static_cast<uint8_t>(what);
    record.address = address;
    record.length = length;
    record.flags = flags;
    return record;
}

// A table and what it must say of each page: 1 + its maker, or 0.
class Checked {
  public:
    Checked() { table.page_bytes = kPage; }
    ~Checked() { mapping_table_free(&table); }

    void take(const mapping_record &record)
    {
        mapping_table_take(&table, &record);
        if (record.failed || record.length == 0) return;
        uint64_t first = record.address / kPage;
        uint64_t last = (record.address + record.length - 1) / kPage;
        bool maps = record.what == MAPPING_MAP || record.what == MAPPING_MOVE_TO;
        bool gives = record.what == MAPPING_UNMAP || record.what == MAPPING_MOVE_FROM;
        bool fixed = record.flags == (record.what == MAPPING_MAP ? 0x10u : 2u);
        bool met = false;
        if (maps) makers++;
        for (uint64_t page = first; page <= last && page < kPages && (maps || gives); page++) {
            met |= pages[page] != 0;
            pages[page] = maps ? makers : 0;
        }
        overlaps += maps && met && !fixed;
    }

    void compare() const
    {
        uint64_t mapped = 0;
        for (uint64_t page = 0; page < kPages; page++) {
            const mapping_piece *piece = mapping_table_find(&table, page * kPage + page);
            ASSERT_EQ(piece == nullptr ? 0 : 1 + piece->maker, pages[page]) << "page " << page;
            mapped += pages[page] != 0;
        }
        ASSERT_EQ(table.bytes, mapped * kPage);
        ASSERT_EQ(table.overlaps, overlaps);
        for (size_t i = 1; i < table.pieces_count; i++)
            ASSERT_LE(table.pieces[i - 1].end, table.pieces[i].start);
    }

    mapping_table table{};
    std::vector<uint32_t> pages = std::vector<uint32_t>(kPages);
    uint32_t makers = 0;
    uint64_t overlaps = 0;
};

TEST(MappingTable, RandomCalls)
{
    std::mt19937 random(7);
    auto below = [&](uint64_t limit) { return random() % limit; };
    for (int round = 0; round < 50; round++) {
        Checked checked;
        for (int call = 0; call < 200; call++) {
            const unsigned whats[] = {MAPPING_MAP, MAPPING_UNMAP, MAPPING_MOVE_FROM,
                                      MAPPING_MOVE_TO, MAPPING_ADVISE};
            const unsigned what = whats[below(5)];
            const uint64_t page = below(kPages - 1), most = (kPages - page) * kPage;
            mapping_record record = make(what, page * kPage, below(below(4) ? 8 * kPage : most));
            if (record.length > most) record.length = most;
            if (below(2)) record.flags = what == MAPPING_MAP ? 0x10 : 2;
            record.failed = below(8) == 0;
            checked.take(record);
        }
        checked.compare();
    }
}

TEST(MappingTable, LongRangesAndLosses)
{
    Checked checked;
    checked.take(make(MAPPING_MAP, 4 * kPage, 8 * kPage));
    mapping_record all = make(MAPPING_UNMAP, kPage, UINT64_MAX);
    mapping_table_take(&checked.table, &all);
    EXPECT_EQ(checked.table.bytes, 0u);
    EXPECT_EQ(checked.table.peak_bytes, 8 * kPage);
    mapping_record lost = make(MAPPING_LOST, 0, 3);
    mapping_table_take(&checked.table, &lost);
    EXPECT_EQ(checked.table.lost, 3u);
}

// What was there before is no call's: to get it is no overlap.
TEST(MappingTable, Found)
{
    Checked checked;
    for (mapping_record record :
         {make(MAPPING_FOUND, 4 * kPage, 4 * kPage), make(MAPPING_MAP, 6 * kPage, kPage)})
        mapping_table_take(&checked.table, &record);
    EXPECT_EQ(checked.table.overlaps, 0u);
    EXPECT_EQ(checked.table.found, 1u);
    EXPECT_EQ(checked.table.makers[mapping_table_find(&checked.table, 6 * kPage)->maker].what,
              MAPPING_MAP);
    EXPECT_EQ(checked.table.makers[mapping_table_find(&checked.table, 7 * kPage)->maker].what,
              MAPPING_FOUND);
}

TEST(MappingTable, Detach)
{
    Checked checked;
    for (mapping_record record :
         {make(MAPPING_MAP, 0, kPage), make(MAPPING_ATTACH, kPage, kPage + 1),
          make(MAPPING_DETACH, 0, 0), make(MAPPING_DETACH, kPage, 0)})
        mapping_table_take(&checked.table, &record);
    EXPECT_EQ(checked.table.bytes, kPage);
    EXPECT_EQ(mapping_table_find(&checked.table, kPage), nullptr);
}

TEST(MappingTable, MakersOfNothingGo)
{
    Checked checked;
    mapping_record record = make(MAPPING_MAP, 0, kPage);
    record.name = "/a";
    record.name_bytes = 2;
    checked.take(record);
    for (int i = 0; i < 20000; i++) {
        record.address = (1 + i % 3) * kPage;
        mapping_table_take(&checked.table, &record);
    }
    EXPECT_LT(checked.table.makers_count, 5000u);
    for (uint64_t page = 0; page < 4; page++) {
        const mapping_piece *piece = mapping_table_find(&checked.table, page * kPage);
        ASSERT_NE(piece, nullptr);
        const mapping_maker &maker = checked.table.makers[piece->maker];
        const uint64_t latest[] = {0, 19999, 20000, 19998};
        EXPECT_EQ(maker.record, latest[page]);
        EXPECT_EQ(std::string(maker.name, maker.name_bytes), "/a");
    }
}

// The parts of an area of ten pages from the second on, as text.
std::string divided(const mapping_table &table, uint64_t resident, const std::string &runs)
{
    residency_area area{};
    std::string text;
    area.start = 1;
    area.end = 11;
    area.resident = resident;
    /* Behind the runs are bytes that a varint may touch. */
    std::string bytes = runs + std::string(16, '\0');
    area.has_runs = !runs.empty();
    area.run_at = reinterpret_cast<const uint8_t *>(bytes.data());
    area.run_end = area.run_at + runs.size();
    mapping_table_divide(
        &table, &area, kPage,
        [](void *context, const mapping_piece *piece, uint64_t start, uint64_t end, uint64_t kib) {
            *static_cast<std::string *>(context) +=
                (piece == nullptr ? "-" : std::to_string(piece->maker)) + " " +
                std::to_string(start / kPage) + ".." + std::to_string(end / kPage) + " " +
                std::to_string(kib) + "; ";
        },
        &text);
    return text;
}

TEST(MappingTable, AreasAreDivided)
{
    Checked checked;
    const mapping_table &table = checked.table;
    EXPECT_EQ(divided(table, 8, ""), "- 1..11 8; ");
    checked.take(make(MAPPING_MAP, 0, 3 * kPage));
    checked.take(make(MAPPING_MAP, 3 * kPage, 4 * kPage));
    checked.take(make(MAPPING_MAP, 9 * kPage, 9 * kPage));
    EXPECT_EQ(divided(table, 40, ""), "0 1..3 8; 1 3..7 16; - 7..9 8; 2 9..11 8; ");
    EXPECT_EQ(divided(table, 20, ""), "0 1..3 4; 1 3..7 8; - 7..9 4; 2 9..11 4; ");
    /* Two pages that are not, three that are, two that are not, one that is. */
    EXPECT_EQ(divided(table, 16, "\x05\x07\x05\x03"), "0 1..3 0; 1 3..7 12; - 7..9 4; 2 9..11 0; ");
}

// What makes reserved pages accessible has them: not what is accessible, what another call has moved,
// or files; a call without a stack only if nothing is known of who reserved them.
TEST(MappingTable, WhatWasReserved)
{
    mapping_table table{};
    table.page_bytes = kPage;
    auto take = [&](unsigned what, uint64_t page, uint64_t pages, uint32_t protection,
                    uint32_t stack, bool own = false) {
        mapping_record record = make(what, page * kPage, pages * kPage);
        record.protection = protection;
        record.stack = stack;
        record.own = own;
        mapping_table_take(&table, &record);
    };
    auto maker_at = [&](uint64_t page) {
        const mapping_piece *piece = mapping_table_find(&table, page * kPage);
        return piece == nullptr ? mapping_maker{} : table.makers[piece->maker];
    };
    take(MAPPING_FOUND, 0, 8, 0, 0);
    take(MAPPING_MAP, 8, 8, 0, 17, true);
    take(MAPPING_MAP, 16, 4, 3, 18);
    take(MAPPING_MOVE_TO, 20, 4, 0, 19);
    take(MAPPING_PROTECT, 2, 4, 3, 0);    // found, no stack
    take(MAPPING_PROTECT, 4, 8, 3, 9);    // found, and reserved by the allocator
    take(MAPPING_PROTECT, 12, 2, 3, 0);   // reserved; no stack
    take(MAPPING_PROTECT, 14, 12, 1, 10); // reserved, accessible, moved, nothing
    take(MAPPING_PROTECT, 4, 2, 0, 11);   // no longer accessible
    EXPECT_EQ(table.bytes, 24 * kPage);
    EXPECT_EQ(table.overlaps, 0u);
    EXPECT_EQ(maker_at(1).what, MAPPING_FOUND);
    EXPECT_EQ(maker_at(2).what, MAPPING_MAP);
    const uint32_t stacks[] = {0, 0,  0,  0,  0,  0,  9,  9,  9,  9, 9,
                               9, 17, 17, 10, 10, 18, 18, 18, 18, 19};
    for (uint64_t page = 0; page < std::size(stacks); page++)
        EXPECT_EQ(maker_at(page).stack, stacks[page]) << "page " << page;
    EXPECT_FALSE(maker_at(7).own);
    EXPECT_TRUE(maker_at(9).own);
    EXPECT_TRUE(maker_at(14).own);
    mapping_table_free(&table);
}

} // namespace
