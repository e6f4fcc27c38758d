/* interactive - `malloctape report -i`: tables and trees by code on a terminal, with keys. It needs no
 * colours, 80 columns and 24 lines are enough, and 40 by 8 do. */
#ifndef MALLOCTAPE_REPORT_INTERACTIVE_H
#define MALLOCTAPE_REPORT_INTERACTIVE_H

#include "report/by_code.h"

/* Shows it until the user quits. `name`: of the program. NULL, or why it cannot. */
const char *interactive_run(struct by_code *code, const char *name);

#endif
