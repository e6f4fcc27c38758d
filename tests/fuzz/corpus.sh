#!/bin/bash
# corpus.sh DIRECTORY - what the fuzzers begin with: DIRECTORY/raw, DIRECTORY/spool and
# DIRECTORY/instructions, full of small samples and simulated recordings, DIRECTORY/reports of their
# replays, for each format DIRECTORY/import-FORMAT with small files of it, and DIRECTORY/symbols.
set -euo pipefail

build_dir=$MALLOCTAPE_BUILD
write_samples=$build_dir/tests/samples/write_samples
corpus=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$corpus/raw" "$corpus/spool" "$corpus/instructions"

# put KIND NAME FILE... - the bytes of the files, and the byte that chooses: checksums are put
# right.
put() {
    local file=$corpus/$1/$2
    shift 2
    cat "$@" >"$file"
    printf '\0' >>"$file"
}

# Two bytes, the lower one first.
length_of() {
    local n
    n=$(wc -c <"$1")
    printf '%b' "$(printf '\\x%02x\\x%02x' $((n & 255)) $((n >> 8)))"
}

samples() {
    local names
    names=$("$write_samples" --list)
    # shellcheck disable=SC2086 # names
    (cd "$scratch" && "$write_samples" $names)
    for name in $names; do
        [ "$(wc -c <"$scratch/$name")" -lt 20000 ] || continue
        case $(head -c 8 "$scratch/$name") in
        MTAPERAW) put raw "$name" "$scratch/$name" ;;
        MTAPEINS) put instructions "$name" "$scratch/$name" ;;
        esac
    done
}

simulated() {
    for seed in $(seq 1 40); do
        "$build_dir/tests/sim/simulate" --write --directory="$scratch" seed="$seed" \
            threads=$((1 + seed % 4)) events=$((seed * 3)) tick_every=20 tick_skew=5 cut_every=20 \
            exits=30 failures=30 heap_calls=30 slots=5 unknown=$((seed % 5)) losses=$((seed % 2)) \
            slot_units=2016 frames=$((seed % 8 == 0)) "$@"
        if [ -f "$scratch/raw.spool" ]; then
            length_of "$scratch/raw" >"$scratch/length"
            put spool "simulated$seed" "$scratch/length" "$scratch/raw" "$scratch/raw.spool"
            continue
        fi
        put raw "simulated$seed" "$scratch/raw"
        rm -f "$scratch/ordered"
        "$build_dir/bin/postprocess" -q "$scratch/raw" "$scratch/ordered" 2>/dev/null || true
        [ ! -s "$scratch/ordered" ] || put instructions "simulated$seed" "$scratch/ordered"
    done
}

# What replays report.
reports() {
    mkdir -p "$corpus/reports"
    for file in "$corpus"/instructions/*[1-9]; do
        head -c -1 "$file" >"$scratch/stream"
        "$build_dir/bin/replay" --quiet --engine null --series --json "$scratch/report" \
            "$scratch/stream" >/dev/null 2>&1 || continue
        tr -d '\n ' <"$scratch/report" >"$corpus/reports/${file##*/}"
    done
}

samples
simulated
simulated end=3
reports
ruby "$MALLOCTAPE_SOURCE/tests/convert/corpus.rb" "$corpus"
"$MALLOCTAPE_SOURCE/tests/fuzz/symbols_corpus.sh" "$corpus/symbols"
touch "$corpus/made"
