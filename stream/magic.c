#include "stream/magic.h"

#include <string.h>

#include "common/bytes.h"

#define IMPORT(what)          "this is " what ": `malloctape import` makes an instruction stream of it"
#define UNPACK(what, command) "this is " what ": `" command "` unpacks it"

static const struct {
    const char *begin;
    size_t bytes;
    const char *text;
} magics[] = {
    {MAGIC_OF_RAW, 8, "this is a recording; order it first with malloctape order"},
    {MAGIC_OF_INSTRUCTIONS, 8,
     "this is an instruction stream, which is in order already; malloctape replay takes it"},
    {"MTAPESPL", 8, "this is a spool: malloctape order finds it beside its recording"},
    {"\x1f\x8b", 2, UNPACK("gzip", "gzip -dc")},
    {"\x28\xb5\x2f\xfd", 4, UNPACK("zstd", "zstd -dc")},
    {"\xfd"
     "7zXZ",
     5, UNPACK("xz", "xz -dc")},
    {"BZh", 3, UNPACK("bzip2", "bzip2 -dc")},
    {"PK\3\4", 4, UNPACK("a zip archive", "unzip -p")},
    {"Obj\1", 4, "this is Avro, which malloctape can write, but not read"},
    {"\xe4\x63\xbd\x6c", 4, IMPORT("a raw trace of gperftools' wip-malloc-tracing")},
    {"= Start", 7, IMPORT("a trace of mtrace(3)")},
    {"v ", 2, IMPORT("a raw file of heaptrack")},
};

/* Numbers of a .wl have seven bits a byte, with the eighth set but in the last. */
static size_t wl_number(const uint8_t *at, size_t bytes)
{
    size_t length = 0;
    while (length < bytes && at[length] >= 0x80)
        length++;
    return length + 1;
}

/* It begins with how many pointers, conditions and threads it has. */
static int is_wl(const uint8_t *at, size_t bytes)
{
    size_t next = 0;
    for (uint8_t code = 8; code <= 10; code++) {
        if (next >= bytes || at[next] != code) return 0;
        next++;
        next += wl_number(at + next, bytes - next);
    }
    return next <= bytes;
}

/* Its first record has type 255, the address 0x1234, and the bytes of a pointer. */
static int is_dj_mtrace(const uint8_t *at, size_t bytes)
{
    return (bytes >= 32 && at[4] == 255 && bytes_get64(at + 8) == 0x1234 &&
            bytes_get64(at + 24) == 8) ||
           (bytes >= 20 && at[4] == 255 && bytes_get32(at + 8) == 0x1234 &&
            bytes_get32(at + 16) == 4);
}

const char *magic_text(const uint8_t *at, size_t bytes)
{
    if (bytes == 0) return "the input is empty";
    for (size_t i = 0; i < sizeof magics / sizeof *magics; i++)
        if (bytes >= magics[i].bytes && memcmp(at, magics[i].begin, magics[i].bytes) == 0)
            return magics[i].text;
    if (is_wl(at, bytes)) return IMPORT("a .wl, a workload of glibc's dj/malloc");
    if (is_dj_mtrace(at, bytes)) return IMPORT("a .mtrace of glibc's dj/malloc");
    return "`malloctape import` reads files of other tools";
}
