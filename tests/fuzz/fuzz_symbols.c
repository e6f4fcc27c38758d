/* fuzz_symbols - what symbols/ makes of the files that a module leads to. An input is a letter, the
 * length of the first file, and the bytes of both files (symbols_corpus.sh):
 *
 *   w  a program or library            a  and its debug information apart
 *   s  and what that shares (dwz)      o, p  and the file of split units (.dwo, .dwp)
 *   m  a map of generated code         n  mangled names, a line each
 *
 * A mutation changes a few bytes in one section, or in the headers, so that the rest makes sense. An
 * address must have the same frames when it is asked for again. */
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "symbols/perf_map.h"
#include "symbols/symbol_name.h"
#include "symbols/symbols.h"

int LLVMFuzzerInitialize(int *count, char ***words);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t bytes, size_t room, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t bytes, size_t room);

enum { HEAD_BYTES = 5, ADDRESS_LAST = 0x1400, ADDRESS_STEP = 24 };

static char directory[] = "/tmp/fuzz_symbols.XXXXXX";

/* ---- files ---- */

/* By letter, the files of an input. */
static const struct kind {
    char letter;
    const char *first, *second;
} kinds[] = {{'w', "known", NULL},
             {'a', "known", "known.apart"},
             {'s', "known", "common"},
             {'o', "known", "known.dwo"},
             {'p', "known", "known.dwp"},
             {'m', "map", NULL},
             {'n', NULL, NULL}};
enum { KINDS = sizeof kinds / sizeof *kinds };

static void leave(void)
{
    if (chdir(directory) != 0) return;
    for (size_t i = 0; i < KINDS; i++) {
        if (kinds[i].first != NULL) unlink(kinds[i].first);
        if (kinds[i].second != NULL) unlink(kinds[i].second);
    }
    if (rmdir(directory) != 0) perror(directory);
}

int LLVMFuzzerInitialize(int *count, char ***words)
{
    (void)count, (void)words;
    setenv("DEBUGINFOD_URLS", "", 1);
    if (mkdtemp(directory) == NULL) abort();
    atexit(leave);
    return 0;
}

/* Writes a file, or removes it: no data. */
static void put(const char *name, const uint8_t *data, size_t bytes)
{
    char path[64];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    if (data == NULL) {
        unlink(path);
        return;
    }
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, data, bytes) != (ssize_t)bytes) abort();
    close(fd);
}

/* The length of the first file. */
static size_t first_bytes(const uint8_t *data, size_t bytes)
{
    const size_t first = data[1] | (size_t)data[2] << 8 | (size_t)data[3] << 16;
    return first < bytes - HEAD_BYTES ? first : bytes - HEAD_BYTES;
}

/* ---- what is asked ---- */

static void check_frames(const struct symbols *symbols, const struct symbol_frame *frames,
                         unsigned count)
{
    if (count == 0 || count > SYMBOL_FRAMES_MAX) abort();
    for (unsigned i = 0; i < count; i++)
        if (frames[i].function >= symbols->strings.count ||
            frames[i].file >= symbols->strings.count)
            abort();
}

static bool are_same(const struct symbol_frame *one, const struct symbol_frame *other,
                     unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (one[i].function != other[i].function || one[i].file != other[i].file ||
            one[i].line != other[i].line)
            return false;
    return true;
}

static void ask(void)
{
    const char *const directories[] = {directory};
    static struct symbol_frame frames[SYMBOL_FRAMES_MAX], again[SYMBOL_FRAMES_MAX];
    struct symbols symbols;
    if (!symbols_open(&symbols, directories, 1)) abort();
    const uint32_t module = symbols_module(&symbols, "/nowhere/known", (const uint8_t *)"", 0);
    for (uint64_t at = 0; at < ADDRESS_LAST; at += ADDRESS_STEP) {
        const unsigned count = symbols_find(&symbols, module, at, frames);
        check_frames(&symbols, frames, count);
        const bool same =
            symbols_find(&symbols, module, at, again) == count && are_same(frames, again, count);
        if (!same && (symbols_lack(&symbols, module) & SYMBOL_LACKS_BUDGET) == 0) abort();
    }
    symbols_close(&symbols);
}

static void ask_map(void)
{
    char path[64];
    struct perf_map map = {.lines = {.at = NULL}};
    struct strings strings;
    snprintf(path, sizeof path, "%s/map", directory);
    if (!strings_open(&strings)) abort();
    perf_map_read(&map, path, 0, &strings);
    for (size_t i = 0; i < map.lines.count; i++)
        if (perf_map_find(&map, map.lines.at[i].begin) >= strings.count) abort();
    perf_map_free(&map);
    strings_free(&strings);
}

static void ask_names(const uint8_t *data, size_t bytes)
{
    char *text = strndup((const char *)data, bytes), *rest = text;
    for (char *line; rest != NULL && (line = strsep(&rest, "\n")) != NULL;)
        free(symbol_name_demangle(line));
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes < HEAD_BYTES) return 0;
    const size_t first = first_bytes(data, bytes);
    const uint8_t *second = data + HEAD_BYTES + first;
    const size_t rest = bytes - HEAD_BYTES - first;
    static const struct kind *kind = &kinds[0]; /* of the latest input */
    if (kind->second != NULL) put(kind->second, NULL, 0);
    for (kind = kinds; kind < kinds + KINDS - 1 && kind->letter != data[0];)
        kind++;
    if (kind->first != NULL) put(kind->first, data + HEAD_BYTES, first);
    if (kind->second != NULL) put(kind->second, second, rest);
    switch (kind->letter) {
    case 'm': ask_map(); break;
    case 'n': ask_names(data + HEAD_BYTES, first); break;
    default: ask();
    }
    return 0;
}

/* ---- mutations ---- */

static uint64_t state;

static uint64_t any(void) /* xorshift64 */
{
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static size_t below(size_t end)
{
    return end > 0 ? (size_t)(any() % end) : 0;
}

/* A part of a file: a section, mostly of debug information, or headers. */
static void choose_part(const uint8_t *file, size_t bytes, size_t *begin, size_t *length)
{
    Elf64_Ehdr header;
    Elf64_Shdr section;
    *begin = 0;
    *length = bytes;
    if (bytes < sizeof header) return;
    memcpy(&header, file, sizeof header);
    const uint64_t table = (uint64_t)header.e_shnum * sizeof section;
    if (memcmp(file, ELFMAG, SELFMAG) != 0 || header.e_shoff > bytes ||
        table > bytes - header.e_shoff)
        return;
    if (below(16) == 0) { /* headers */
        *begin = below(2) == 0 ? 0 : header.e_shoff;
        *length = *begin == 0 ? sizeof header + header.e_phnum * sizeof(Elf64_Phdr) : table;
        if (*length > bytes - *begin) *length = bytes - *begin;
        return;
    }
    for (unsigned tries = 0; tries < 20; tries++) {
        if (header.e_shnum == 0) return;
        memcpy(&section, file + header.e_shoff + below(header.e_shnum) * sizeof section,
               sizeof section);
        if (section.sh_type == SHT_NOBITS || section.sh_size == 0 || section.sh_offset >= bytes)
            continue;
        /* What is loaded is asked for by name alone, but for unwind tables. */
        if ((section.sh_flags & SHF_ALLOC) != 0 && below(4) != 0) continue;
        *begin = section.sh_offset;
        *length = section.sh_size < bytes - *begin ? section.sh_size : bytes - *begin;
        return;
    }
}

static void put_number(uint8_t *at, size_t room, size_t file_bytes)
{
    static const uint64_t edges[] = {0,      1,          0x7f,       0x80,       0xff,
                                     0xffff, 0x7fffffff, 0xfffffff0, 0xffffffff, UINT64_MAX};
    const size_t sizes[] = {1, 2, 4, 8};
    const size_t size = sizes[below(4)];
    const uint64_t number =
        below(2) == 0 ? edges[below(sizeof edges / sizeof *edges)] : below(file_bytes);
    memcpy(at, &number, size < room ? size : room);
}

static void change(uint8_t *file, size_t bytes)
{
    size_t begin, length;
    choose_part(file, bytes, &begin, &length);
    if (length == 0) return;
    for (size_t left = 1 + below(5); left > 0; left--) {
        const size_t at = below(length), room = length - at, from = below(length);
        uint8_t *part = file + begin;
        switch (below(6)) {
        case 0: part[at] ^= (uint8_t)(1u << below(8)); break;
        case 1: part[at] = (uint8_t)any(); break;
        case 2: part[at] = (uint8_t)(part[at] + below(5) - 2); break;
        case 3: put_number(part + at, room, bytes); break;
        case 4: {
            size_t count = 1 + below(16);
            if (count > room) count = room;
            if (count > length - from) count = length - from;
            memmove(part + at, part + from, count);
            break;
        }
        default: LLVMFuzzerMutate(part + at, room < 16 ? room : 16, room < 16 ? room : 16);
        }
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t bytes, size_t room, unsigned seed)
{
    state = (seed + UINT64_C(1)) * UINT64_C(0x9e3779b97f4a7c15);
    if (bytes < HEAD_BYTES || data[0] == 'm' || data[0] == 'n') {
        const size_t head = bytes < HEAD_BYTES ? 0 : HEAD_BYTES;
        const size_t length = LLVMFuzzerMutate(data + head, bytes - head, room - head);
        if (head > 0) memcpy(data + 1, &(uint32_t){(uint32_t)length}, sizeof(uint32_t));
        return head + length;
    }
    const size_t first = first_bytes(data, bytes), rest = bytes - HEAD_BYTES - first;
    if (rest > 0 && below(3) != 0)
        change(data + HEAD_BYTES + first, rest);
    else
        change(data + HEAD_BYTES, first);
    return bytes;
}
