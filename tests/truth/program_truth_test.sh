#!/bin/sh
# program_truth_test.sh - what a witness in front of the program's own allocator saw is recorded:
# truth_test.sh with libmalloctape.so.
MALLOCTAPE_FRONT_END=program exec "$(dirname "$0")/truth_test.sh"
