/* magic - tells by its first bytes what a file is, if it is not the expected one.
 *
 *   "\x1f\x8b..." --> "this is gzip: `gzip -dc` unpacks it" */
#ifndef MALLOCTAPE_MAGIC_H
#define MALLOCTAPE_MAGIC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MAGIC_OF_STREAM_BYTES 8
#define MAGIC_OF_RAW          "MTAPERAW" /* FORMAT.md 4.1 */
#define MAGIC_OF_INSTRUCTIONS "MTAPEINS" /* INSTRUCTIONS.md 4.1 */

/* This many bytes are enough for magic_text(). */
#define MAGIC_TEXT_BYTES 64

/* What the file is, and with which command it can be read. */
const char *magic_text(const uint8_t *at, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
