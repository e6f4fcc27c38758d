/* by_code_place - where in the source a row of by_code.h makes its numbers. */
#ifndef MALLOCTAPE_REPORT_BY_CODE_PLACE_H
#define MALLOCTAPE_REPORT_BY_CODE_PLACE_H

#include "report/by_code.h"

struct by_code_place {
    const struct code_frame *most; /* NULL: nowhere */
    unsigned others;               /* other lines that have a part in it */
};

/* Where a row itself makes most of a number; if it has nothing of it: where it asks for most, or
 * frees. */
struct by_code_place by_code_place_of(const struct by_code *code, uint32_t row,
                                      const struct by_code_number *number);

/* Prints "file.c:12" of a frame, or its module. `whole`: with the path. */
void by_code_print_frame(const struct by_code *code, const struct code_frame *frame, bool whole,
                         FILE *to);

/* Prints the same of a place, and how many other lines there are. */
void by_code_print_one_place(const struct by_code *code, const struct by_code_place *place,
                             bool whole, FILE *to);

/* Prints the same of a row, and how many other lines there are. */
void by_code_print_whole_place(const struct by_code *code, uint32_t row,
                               const struct by_code_number *number, bool whole, FILE *to);

/* Whether rows have a place beside their name: by line, file or module, that says where they are. */
bool by_code_has_place(const struct by_code *code);

/* Prints "  file.c:12 and 2 others", where most of a number of a row itself is made, as far as it is
 * known. */
void by_code_print_place(const struct by_code *code, uint32_t row,
                         const struct by_code_number *number, FILE *to);

#endif
