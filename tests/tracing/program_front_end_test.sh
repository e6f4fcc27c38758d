#!/bin/sh
# program_front_end_test.sh - front_end_test.sh with libmalloctape.so.
MALLOCTAPE_FRONT_END=program exec "$(dirname "$0")/front_end_test.sh"
