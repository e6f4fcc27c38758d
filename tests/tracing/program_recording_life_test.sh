#!/bin/sh
# program_recording_life_test.sh - recording_life_test.sh with libmalloctape.so.
MALLOCTAPE_FRONT_END=program exec "$(dirname "$0")/recording_life_test.sh"
