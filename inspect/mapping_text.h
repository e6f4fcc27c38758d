/* mapping_text - records of mappings and of residency as `dump` prints them. */
#ifndef MALLOCTAPE_INSPECT_MAPPING_TEXT_H
#define MALLOCTAPE_INSPECT_MAPPING_TEXT_H

#include <stdio.h>

#include "stream/mapping.h"
#include "stream/residency.h"

/* What stands after the offset, and a line end. */
void mapping_text_print(FILE *to, const struct mapping_record *record);
void residency_text_print(FILE *to, const struct residency *residency);
void residency_area_print(FILE *to, const struct residency_area *area, uint32_t page_bytes);

#endif
