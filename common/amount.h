/* amount - numbers of bytes and times as users write them: 500M, 1.5G; 90s, 10m, 2h, 7d. */
#ifndef MALLOCTAPE_AMOUNT_H
#define MALLOCTAPE_AMOUNT_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A number of at least 0, perhaps followed by one of k, M, G, T, or K (powers of 1024). Sets `*end`
 * behind it. False: there is none. */
bool amount_take_bytes(const char *text, const char **end, double *bytes);

/* A number above 0, perhaps followed by s, m, h or d. */
bool amount_take_ns(const char *text, const char **end, uint64_t *ns);

/* "TIME" or "TIME,BYTES"; without BYTES these are 0. False: it is neither. */
bool amount_parse_keep(const char *text, uint64_t *ns, uint64_t *bytes);

#ifdef __cplusplus
}
#endif
#endif
