/* symbolize - what symbols/ says, for tests.
 *
 *   symbolize [-d DIR]... PATH BUILD-ID ADDRESS...     hexadecimal; "-" for no build id
 *       prints for each address a line, its frames, innermost first; then the state of the file
 *   symbolize --demangle NAME...
 *   symbolize --plain NAME...                          without return types and parameters
 *   symbolize --library [NAME FILE r]...               r: a name of Rust; else anything
 *   symbolize --perf-map FILE SINCE ADDRESS...         SINCE: seconds since the epoch */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "symbols/function_name.h"
#include "symbols/perf_map.h"
#include "symbols/symbol_name.h"
#include "symbols/symbols.h"

enum { DIRECTORIES_MAX = 8 };

static size_t read_build_id(const char *hex, uint8_t id[BUILD_ID_MAX])
{
    size_t bytes = 0;
    for (unsigned byte; bytes < BUILD_ID_MAX && sscanf(hex + 2 * bytes, "%2x", &byte) == 1;)
        id[bytes++] = (uint8_t)byte;
    return bytes;
}

static void print_frames(struct symbols *symbols, uint32_t module, uint64_t address)
{
    struct symbol_frame frames[SYMBOL_FRAMES_MAX];
    const unsigned count = symbols_find(symbols, module, address, frames);
    for (unsigned i = 0; i < count; i++)
        printf("%s%s %s:%u", i > 0 ? "; " : "", symbols->strings.at[frames[i].function],
               symbols->strings.at[frames[i].file], frames[i].line);
    putchar('\n');
}

static void print_state(const struct symbols *symbols, uint32_t module)
{
    static const char *const states[] = {"found", "missing", "other", "no id"};
    static const char *const lacks[] = {"shared", "split", "unpacked", "budget"};
    fputs(states[symbols_state(symbols, module)], stdout);
    for (size_t i = 0; i < sizeof lacks / sizeof *lacks; i++)
        if (symbols_lack(symbols, module) & 1u << i) printf(", lacks %s", lacks[i]);
    putchar('\n');
}

static int print_perf_map(char **words)
{
    struct perf_map map = {.lines = {.at = NULL}};
    struct strings strings;
    if (!strings_open(&strings)) return 1;
    if (!perf_map_read(&map, words[0], atof(words[1]), &strings)) puts("none");
    for (char **word = words + 2; *word != NULL; word++)
        puts(strings.at[perf_map_find(&map, strtoull(*word, NULL, 16))]);
    perf_map_free(&map);
    strings_free(&strings);
    return 0;
}

int main(int count, char **words)
{
    const char *directories[DIRECTORIES_MAX];
    size_t directories_count = 0;
    struct symbols symbols;
    uint8_t id[BUILD_ID_MAX];
    words++;
    if (count > 2 && strcmp(words[0], "--demangle") == 0) {
        while (*++words != NULL) {
            char *name = symbol_name_demangle(*words);
            puts(name);
            free(name);
        }
        return 0;
    }
    if (count > 2 && strcmp(words[0], "--plain") == 0) {
        while (*++words != NULL) {
            function_name_take_out_types(*words);
            puts(*words);
        }
        return 0;
    }
    if (count > 4 && strcmp(words[0], "--library") == 0) {
        for (words++; words[0] != NULL; words += 3)
            puts(function_is_library(words[0], words[1], *words[2] == 'r') ? "library" : "own");
        return 0;
    }
    if (count > 3 && strcmp(words[0], "--perf-map") == 0) return print_perf_map(words + 1);
    for (; words[0] != NULL && strcmp(words[0], "-d") == 0; words += 2)
        directories[directories_count++] = words[1];
    if (!symbols_open(&symbols, directories, directories_count)) return 1;
    const uint32_t module = symbols_module(&symbols, words[0], id, read_build_id(words[1], id));
    for (char **word = words + 2; *word != NULL; word++)
        print_frames(&symbols, module, strtoull(*word, NULL, 16));
    print_state(&symbols, module);
    symbols_close(&symbols);
    return 0;
}
