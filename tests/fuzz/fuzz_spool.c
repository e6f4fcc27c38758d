/* fuzz_spool - spools, beside streams that were cut: two bytes say how long the stream is, then
 * stream, spool, choice. */
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_postprocess.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes < 3) return 0;
    unsigned choice = data[bytes - 1];
    size_t raw_bytes = data[0] | (size_t)data[1] << 8;
    uint8_t *copy = fuzz_copy(data, bytes - 1);
    bytes -= 3;
    if (raw_bytes > bytes) raw_bytes = bytes;
    uint8_t *raw = copy + 2, *spool = raw + raw_bytes;
    if ((choice & FUZZ_KEEP) == 0) {
        fuzz_seal_raw(raw, raw_bytes);
        fuzz_seal_spool(spool, bytes - raw_bytes);
    }
    fuzz_postprocess(raw, raw_bytes, spool, bytes - raw_bytes, choice);
    return 0;
}
