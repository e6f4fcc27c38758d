/* symbol_frame - a function and a line that an address belongs to. */
#ifndef MALLOCTAPE_SYMBOLS_SYMBOL_FRAME_H
#define MALLOCTAPE_SYMBOLS_SYMBOL_FRAME_H

#include <stdbool.h>
#include <stdint.h>

enum { SYMBOL_FRAMES_MAX = 64 };

struct symbol_frame {
    uint32_t function, file; /* numbers of strings; file 0: unknown */
    uint32_t line;           /* 0: unknown */
    bool is_rust;
};

/* What could not be read of a module's debug information. */
enum symbol_lacks {
    SYMBOL_LACKS_SHARED = 1,   /* the file with what it shares with other modules (dwz -m) */
    SYMBOL_LACKS_SPLIT = 2,    /* files of single units (-gsplit-dwarf) */
    SYMBOL_LACKS_UNPACKED = 4, /* sections that are packed in an unknown way, or too tightly */
    SYMBOL_LACKS_BUDGET = 8    /* reading all of it would take too long */
};

#endif
