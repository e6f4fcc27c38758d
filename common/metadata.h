/* metadata - lines "key=value\n" in the header of a stream. */
#ifndef MALLOCTAPE_METADATA_H
#define MALLOCTAPE_METADATA_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The value of a key, which is *value_bytes long and ends with no zero; NULL: it is not there. */
const char *metadata_value(const char *metadata, size_t bytes, const char *key,
                           size_t *value_bytes);

/* A copy of it that ends with a zero, to be freed; empty if it is not there. NULL: no memory. */
char *metadata_copy(const char *metadata, size_t bytes, const char *key);

#ifdef __cplusplus
}
#endif
#endif
