#!/bin/bash
# symbols_corpus.sh DIRECTORY - what fuzz_symbols begins with, in DIRECTORY: small libraries with debug
# information of each kind, with the second file that some have, and maps of generated code. An input
# is a letter, the length of the first file (4 bytes, the lower ones first), and the files; the letters
# are those of fuzz_symbols.c.
set -euo pipefail

corpus=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$corpus"
corpus=$(cd "$corpus" && pwd)
cp "$MALLOCTAPE_SOURCE/tests/symbols/known.cc" "$scratch"
cd "$scratch"

has() { command -v "$1" >/dev/null; }

# put NAME LETTER FILE [FILE]
put() {
    local n
    n=$(wc -c <"$3")
    {
        printf '%b' "$2$(printf '\\x%02x' $((n & 255)) $((n >> 8 & 255)) $((n >> 16 & 255)) 0)"
        cat "${@:3}"
    } >"$corpus/$1"
}

# library NAME COMPILER OPTION... - small: nothing is linked, and segments share pages.
library() {
    "$2" -shared -fPIC -nostdlib -nostartfiles -O2 -w -fno-exceptions -fasynchronous-unwind-tables \
        -Wl,-z,noseparate-code,-z,max-page-size=4096,--build-id=sha1 "${@:3}" -o "$1" known.cc
}

whole() {
    library "$@"
    put "$1" w "$1"
}

apart() { # NAME LIBRARY - the library without its debug information, and that
    objcopy --only-keep-debug "$2" known.apart
    objcopy --strip-all --add-gnu-debuglink=known.apart "$2" "$1"
    put "$1" a "$1" known.apart
}

shared() { # NAME OPTION...
    library one g++ "${@:2}"
    library two g++ "${@:2}"
    # Different enough that both are kept.
    objcopy --set-section-flags .comment=alloc,readonly two 2>/dev/null
    dwz -m common -M common one two 2>/dev/null || return 0
    put "$1" s one common
}

split() { # NAME COMPILER OPTION...
    local dwp
    "$2" -c -fPIC -O2 -w "${@:3}" -gsplit-dwarf -o known.o known.cc
    "$2" -shared -nostdlib -nostartfiles -Wl,-z,noseparate-code,--build-id=sha1 -o split known.o
    put "$1" o split known.dwo
    for dwp in llvm-dwp llvm-dwp-14 /usr/lib/llvm-*/bin/llvm-dwp dwp; do
        has "$dwp" && "$dwp" known.dwo -o known.dwp 2>/dev/null && put "$1p" p split known.dwp && break
    done
}

whole gcc5 g++ -gdwarf-5
whole gcc4 g++ -gdwarf-4
whole gcc4types g++ -gdwarf-4 -fdebug-types-section
whole gcc5packed g++ -gdwarf-5 -gz=zlib
whole gcc5small g++ -g1
apart apart5 gcc5
apart apart4 gcc4
split split5 g++ -gdwarf-5
split split4 g++ -gdwarf-4
if has clang++; then
    whole clang5 clang++ -gdwarf-5
    whole clang4 clang++ -gdwarf-4
    split clangsplit5 clang++ -gdwarf-5
fi
if has dwz; then
    shared shared5 -gdwarf-5
    shared shared4 -gdwarf-4
fi
objcopy --strip-debug gcc5 names
put names w names
objcopy --strip-all gcc5 bare
put bare w bare
if has xz; then
    xz -k names
    objcopy --add-section .gnu_debugdata=names.xz bare packed
    put packed w packed
fi
printf '%s\n' '7f0000001000 100 first' '7f0000001080 80 second one' 'no line' '7f0000001000 10 anew' >map
put map m map
printf '%s\n' _ZN5outer8Counter3addEi _ZN4core3ptr7drop_fn17h0123456789abcdefE _RNvCs1234_7mycrate3foo \
    _Z1fI1AIiiES0_IS1_S1_EEvv _Z3fooi.part.0 >texts
put texts n texts
