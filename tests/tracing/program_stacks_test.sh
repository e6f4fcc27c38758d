#!/bin/sh
# program_stacks_test.sh - stacks_test.rb with libmalloctape.so.
MALLOCTAPE_FRONT_END=program exec "$(dirname "$0")/stacks_test.rb"
