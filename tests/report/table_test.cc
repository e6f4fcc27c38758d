// table_test - a table becomes text and JSON; columns that are wide only, texts that are too long, and
// what is not known.
#include "report/table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <string>

namespace {

struct Row {
    const char *name;
    long double bytes, of;
    bool there;
};

// Three columns in the text, of which the last one needs a wide line; two in JSON.
bool row_of(const void *of, size_t at, table_row *row)
{
    const Row &one = static_cast<const Row *>(of)[at];
    *row = {};
    row->cells[0].label = "name";
    row->cells[0].width = -6;
    row->cells[0].text = one.name;
    row->cells[1].key = "bytes";
    row->cells[1].label = "";
    row->cells[1].value = one.bytes;
    row->cells[1].width = 9;
    row->cells[1].unit = UNIT_BYTES;
    row->cells[2].key = "part";
    row->cells[2].label = "share of all";
    row->cells[2].value = one.bytes;
    row->cells[2].width = 8;
    row->cells[2].unit = UNIT_SHARE;
    row->cells[2].of = one.of;
    row->cells[2].wide = true;
    row->count = 3;
    return one.there;
}

const Row kRows[] = {{"a", 1024, 4096, true},
                     {"absent", 1, 1, false},
                     {"too long", 10, 0, true},
                     {"b", NAN, 4096, true}};

std::string text_of(const table &shown, const char *columns, size_t beside = 0)
{
    char *text = nullptr;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);
    setenv("COLUMNS", columns, 1);
    const table both[] = {shown, shown};
    beside > 0 ? table_print_beside(both, beside, to) : table_print(&shown, to);
    fclose(to);
    std::string result(text, bytes);
    free(text);
    return result;
}

std::string json_of(json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT);
    std::string result = text;
    free(text);
    json_decref(value);
    return result;
}

// A label goes to the left over a column without one; what is too long keeps the columns in line.
TEST(Table, IsText)
{
    EXPECT_EQ(text_of({row_of, kRows, 4, nullptr, nullptr, false}, "120"),
              "\nname         share of all\n"
              "a        1.0 KiB     25 %\n"
              "too long 10 bytes   0.0 %\n"
              "b              -        -\n");
}
TEST(Table, IsNarrow)
{
    EXPECT_EQ(text_of({row_of, kRows, 1, nullptr, nullptr, false}, "80"),
              "\nname\na        1.0 KiB\n");
}
TEST(Table, HasOrderAndTitleOrGoesOn)
{
    const uint32_t order[] = {3, 0};
    EXPECT_EQ(text_of({row_of, kRows, 2, order, "title", false}, "80"),
              "\ntitle\nname\nb              -\na        1.0 KiB\n");
    EXPECT_EQ(text_of({row_of, kRows, 1, nullptr, nullptr, true}, "80"), "a        1.0 KiB\n");
    EXPECT_EQ(text_of({row_of, kRows, 0, nullptr, nullptr, false}, "80"), "");
}
TEST(Table, StandsBesideAnother)
{
    EXPECT_EQ(text_of({row_of, kRows, 1, nullptr, "title", false}, "120", 2),
              "\ntitle                      title\n"
              "name         share of all  name         share of all\n"
              "a        1.0 KiB     25 %  a        1.0 KiB     25 %\n");
    EXPECT_EQ(text_of({row_of, kRows, 1, nullptr, "title", false}, "80", 2),
              "\ntitle\nname\na        1.0 KiB\n\ntitle\nname\na        1.0 KiB\n");
}
// Of a share, the number that it is a share of; columns also without a row.
TEST(Table, IsJson)
{
    json_t *object = json_object();
    const table all = {row_of, kRows, 4, nullptr, nullptr, false};
    const table none = {row_of, kRows, 0, nullptr, nullptr, false};
    table_put(object, "all", &all);
    table_put(object, "none", &none);
    EXPECT_EQ(json_of(object), R"({"all":{"bytes":[1024,10,null],"part":[1024,10,null]},)"
                               R"("none":{"bytes":[],"part":[]}})");
    EXPECT_EQ(json_of(table_row_json(row_of, kRows, 0)), R"({"bytes":1024,"part":1024})");
}

} // namespace
