#!/bin/bash
# shellcheck disable=SC2034,SC2154 # tap.sh sets these; bash-completion reads those
# completion_test.sh - `malloctape --complete` prints what may come next, and bash and zsh offer that.
set -eu
# shellcheck source=tests/tap.sh
. "$(dirname "$0")/../tap.sh"

completions=$source_dir/cli/completions
commands='record info dump verify compare change advise cut report sweep ctl top import export order replay'

# offered WORD... - what may stand for the last word, in one line.
offered() { "$bin/malloctape" --complete "$@" 2>err | cut -f 1 | paste -sd ' '; }
offers() { # offers EXPECTED WORD...
    local expected=$1
    shift
    offered "$@" >out
    [ "$(cat out)" = "$expected" ]
}

offers_commands() {
    offers "$commands help" '' && offers 'record report replay' re && offers "$commands" help '' &&
        offers '' nonsense ''
}

# Each has a text from the help, and each that begins a line of the help is there.
offers_options_of_help() {
    local command
    for command in $commands; do
        "$bin/malloctape" --complete "$command" -- >options 2>err
        "$bin/malloctape" help "$command" 2>err |
            grep -oE '^ +(-[a-zA-Z], )?--[a-z-]+(, --[a-z-]+)*' | grep -oE -- '--[a-z-]+' >help
        ! grep -v "$(printf '\t.')" options || return 1
        while read -r option; do
            grep -q -- "^$option$(printf '\t')" options || echo "$command: $option"
        done <help >out
        [ -s options ] && [ ! -s out ] || return 1
    done
    [ "$(wc -l <options)" -gt 15 ]
}

offers_arguments() {
    offers 'memory time' compare --sort '' && offers 'memory time' compare -s '' &&
        offers time compare x --sort=t && offers ':file' report --json '' &&
        offers ':file' report --json= && offers ':file' order -o '' &&
        offers 'tcmalloc program' record --allocator '' && offers '' dump --lane '' &&
        offers 'wip_raw wip_processed wl' import --from w && offers memory_replay export --to me &&
        offers 'always madvise never' compare --thp '' && offers never,madvise compare --thp never,m &&
        offers 'threads' replay -e t && offers 'threads' compare --engine=t
}
offers_allocators() {
    offers 'tcmalloc tcmalloc-noswitch' compare --allocators tcmalloc ||
        offers 'tcmalloc tcmalloc-noswitch tcmalloc-system' compare --allocators tcmalloc || return 1
    offers 'none,glibc' compare -a none,gl && offers glibc report --under=gl &&
        MALLOCTAPE_LIBDIR=/nowhere offers '' compare --allocators tcmalloc-n
}

offers_other_words() {
    offers ':file' report '' && offers ':file' verify x '' && offers ':file' import a b '' &&
        offers ':file' order -- -x && offers 'start stop sync status' ctl 1 s &&
        offers ':file' ctl 1 start '' && offers '' ctl 1 stop '' &&
        offers ':program 1' record -q '' && offers ':program 2' record -o --x -- prog --y && offers '' top 1 ''
}

controls() { "$bin/malloctape" ctl "$1" status >out 2>err; }
offers_processes() {
    TCMALLOC_TRACE_CONTROL=1 TCMALLOC_TRACE_OUTPUT=t.lz4 \
        LD_PRELOAD=$tracing_library sleep 600 2>/dev/null &
    local process=$! here=
    wait_until controls "$process" &&
        offered ctl '' | grep -qw "$process" && offered top "$process" | grep -qw "$process" &&
        here=yes
    kill $process
    wait $process || true
    [ -n "$here" ]
}

# --- the shells -----------------------------------------------------------------------------------

# bash_offers LINE EXPECTED
bash_offers() {
    (
        set +eu
        # shellcheck disable=SC1091 # where it is installed
        . /usr/share/bash-completion/bash_completion
        # shellcheck source=cli/completions/malloctape
        . "$completions/malloctape"
        PATH=$bin:$PATH
        COMP_LINE=$1 COMP_POINT=${#1} COMP_TYPE=9 COMP_KEY=9 COMPREPLY=()
        # = and : are words, as readline divides a line.
        read -ra COMP_WORDS <<<"${1//=/ = }"
        [[ $1 != *[\ =] ]] || COMP_WORDS+=('')
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        _malloctape malloctape "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}" | sort -u | paste -sd ' '
    ) >out 2>err
    [ "$(cat out)" = "$2" ]
}
bash_completes() {
    touch trace.raw.lz4
    bash_offers 'malloctape rep' 'replay report' &&
        bash_offers 'malloctape compare --sort=' 'memory time' &&
        bash_offers 'malloctape report --json=trace.' trace.raw.lz4 &&
        bash_offers 'malloctape report trace.' trace.raw.lz4 &&
        bash_offers 'malloctape record --allocator=program -o x ls trace.' trace.raw.lz4 &&
        bash_offers 'malloctape record -q malloctape-con' malloctape-convert
}

# What zsh makes of a line and the key Tab behind it: the line is then printed.
zsh_completes() {
    touch trace.raw.lz4 && mkdir -p zsh && cp "$completions/_malloctape" zsh || return 1
    # shellcheck disable=SC2016 # for zsh
    PATH=$bin:$PATH zsh -f -c '
        zmodload zsh/zpty
        zpty shell zsh -f -i
        for setup in "PS1= PS2= RPS1=" "fpath=(\$PWD/zsh \$fpath)" "autoload -U compinit" \
            "compinit -D -u" "echo re\"\"ady"; do
            zpty -w shell "$setup"
        done
        zpty -r shell text "*ready*" || exit
        while IFS= read -r line; do
            zpty -n -w shell "$line"$'"'\\t\\x01echo \"<\" \\x05 \">\"\\n'"'
            zpty -r shell text "*< malloctape* >*" || exit
            print -r -- "${text##*< }"
        done
        zpty -d shell' <<'LINES' >printed 2>err || return 1
malloctape compa
malloctape compare --so
malloctape compare --allocators no
malloctape compare -a none,gl
malloctape report --json=trace.
malloctape report trace.
malloctape record -q malloctape-con
malloctape record -o x -- ls trace.
LINES
    sed 's/ >.*//' printed >out && diff - out <<'LINES'
malloctape compare
malloctape compare --sort
malloctape compare --allocators none
malloctape compare -a none,glibc
malloctape report --json=trace.raw.lz4
malloctape report trace.raw.lz4
malloctape record -q malloctape-convert
malloctape record -o x -- ls trace.raw.lz4
LINES
}

plan 8
check 'commands' offers_commands
check 'options of every command, with what its help says of them' offers_options_of_help
check 'arguments of options' offers_arguments
check 'allocators that are installed, also in a list' offers_allocators
check 'files, programs and requests, where they may stand' offers_other_words
check 'processes that can be controlled' offers_processes
if [ -e /usr/share/bash-completion/bash_completion ]; then
    check 'bash offers them' bash_completes
else
    skip_test 'bash offers them' 'needs bash-completion'
fi
if command -v zsh >/dev/null; then
    check 'zsh completes them' zsh_completes
else
    skip_test 'zsh completes them' 'needs zsh'
fi
