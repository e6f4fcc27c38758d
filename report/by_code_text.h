/* by_code_text - the tables of by_code.h as text. */
#ifndef MALLOCTAPE_REPORT_BY_CODE_TEXT_H
#define MALLOCTAPE_REPORT_BY_CODE_TEXT_H

#include "report/by_code.h"

/* `grows`: begins with what is alive at the end, as it does if something may leak. */
void by_code_print(const struct by_code *code, bool grows, FILE *to);

#endif
