/* fuzz_export - `export`, which is another program than the rest of malloctape, as fuzz_command runs
 * commands. */
#define FUZZ_EXPORT
#include "tests/fuzz/fuzz_command.c"
