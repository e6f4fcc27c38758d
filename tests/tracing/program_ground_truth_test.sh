#!/bin/sh
# program_ground_truth_test.sh - every free and realloc names its object above an opaque allocator,
# too: ground_truth_test.sh with libmalloctape.so.
MALLOCTAPE_FRONT_END=program exec "$(dirname "$0")/ground_truth_test.sh"
