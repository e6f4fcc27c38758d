/* fuzz_raw - raw streams, from the first byte to the instructions. */
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_postprocess.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0) return 0;
    unsigned choice = data[bytes - 1];
    uint8_t *raw = fuzz_copy(data, --bytes);
    if ((choice & FUZZ_KEEP) == 0) fuzz_seal_raw(raw, bytes);
    fuzz_postprocess(raw, bytes, NULL, 0, choice);
    return 0;
}
