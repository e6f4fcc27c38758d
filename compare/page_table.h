/* compare/page_table - where tcmalloc's heap lies is random, and with it how many parts its table of pages
 * has (allocators/facts_tcmalloc.h). Of a program that was recorded on it, its replays are corrected to as
 * many as the recording had. */
#ifndef MALLOCTAPE_COMPARE_PAGE_TABLE_H
#define MALLOCTAPE_COMPARE_PAGE_TABLE_H

#include "compare/comparison.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Corrects the memory in all reports. Call after all replays, before compare_expect(). */
void compare_page_table_correct(struct compare *compare);

#ifdef __cplusplus
}
#endif
#endif
