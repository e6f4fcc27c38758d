/* page_pack - the JSON of a page with long lists written shorter; unpacked() of page.js undoes it.
 *
 *   ["a", "b", "a", ...]  {"packed": "texts", "texts": ["a", "b"], "at": [0, 1, 0, ...]}
 *   [0, 0, 7, 0, ...]     {"packed": "mostly", "length": n, "value": 0, "at": [2], "is": [7]}
 *   [4, 4, 9, ...]        {"packed": "steps", "steps": [4, 0, 5, ...]}    integers that never fall
 *
 * Lists of fewer than 64 values stay as they are, and so do those that would not become shorter. */
#ifndef MALLOCTAPE_PAGE_PACK_H
#define MALLOCTAPE_PAGE_PACK_H

#include <jansson.h>

/* A new value; `value` stays as it is. NULL: no memory. */
json_t *page_pack(const json_t *value);

#endif
