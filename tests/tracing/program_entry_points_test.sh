#!/bin/sh
# program_entry_points_test.sh - every function by which a program can reach its own allocator is
# recorded as what it is: entry_points_test.rb with libmalloctape.so.
MALLOCTAPE_FRONT_END=program exec "$(dirname "$0")/entry_points_test.rb"
