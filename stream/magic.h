/* magic - with what the two kinds of streams begin, so that the reader of one can name the
 * other. */
#ifndef MALLOCTAPE_MAGIC_H
#define MALLOCTAPE_MAGIC_H

#define MAGIC_OF_STREAM_BYTES 8
#define MAGIC_OF_RAW          "MTAPERAW" /* FORMAT.md 4.1 */
#define MAGIC_OF_INSTRUCTIONS "MTAPEINS" /* INSTRUCTIONS.md 4.1 */

#endif
