#!/bin/sh
# program_follow_test.sh - process trees, recorded on their own allocator:
# follow_test.sh with libmalloctape.so.
MALLOCTAPE_FRONT_END=program exec "$(dirname "$0")/follow_test.sh"
