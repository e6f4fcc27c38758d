#!/bin/sh
# program_life_test.sh - a process that is recorded on its own allocator is not harmed, whatever
# becomes of it: process_life_test.sh with libmalloctape.so.
MALLOCTAPE_FRONT_END=program exec "$(dirname "$0")/process_life_test.sh"
