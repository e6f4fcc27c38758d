#!/bin/sh
# program_real_programs_test.sh - the same programs, recorded on their own allocators:
# real_programs_test.sh with libmalloctape.so.
MALLOCTAPE_FRONT_END=program exec "$(dirname "$0")/real_programs_test.sh"
