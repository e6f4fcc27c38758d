/* by_code_freed - who frees what a row of by_code.h has made. */
#ifndef MALLOCTAPE_REPORT_BY_CODE_FREED_H
#define MALLOCTAPE_REPORT_BY_CODE_FREED_H

#include "report/by_code.h"

/* Makes code->freed, once the rows are known. False: no memory. */
bool by_code_freed_find(struct by_code *code);

#endif
