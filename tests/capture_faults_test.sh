#!/bin/sh
# capture_faults_test.sh - runs the program of this name, which prints TAP.
exec "${MALLOCTAPE_BUILD:-build}/tests/capture_faults_test"
