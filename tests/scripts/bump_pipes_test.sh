#!/bin/bash
# bump_pipes_test.sh - bump-pipes.rb enlarges what it can, disturbs nothing, and fails with a clear
# word.
#
# Prints TAP.
set -eu

# shellcheck source=tests/tap.sh
. "$(dirname "$0")/../tap.sh"

bump_pipes=$source_dir/bump-pipes.rb

# exits STATUS COMMAND... - runs bump-pipes into the files out and err and compares its exit status.
exits() {
    wanted=$1
    shift
    status=0
    "$bump_pipes" "$@" >out 2>err || status=$?
    [ "$status" = "$wanted" ]
}

says() { grep -q -e "$1" err; }
is_silent() { [ ! -s err ]; }

passes_data() {
    head -c 3000000 /dev/urandom >data
    "$bump_pipes" cat <data 2>err | "$bump_pipes" cat 2>>err | cat >out
    cmp data out && is_silent
}

# Whether the system gives this user a pipe of more than the usual 64 KiB at all.
larger_pipes_granted() { : | ruby -e 'STDIN.fcntl(1031, 131072)' 2>/dev/null; }

enlarges_stdin() {
    : | "$bump_pipes" ruby -e 'p STDIN.fcntl(1032)' >out 2>err
    [ "$(cat out)" -gt 65536 ] || ! larger_pipes_granted
}

enlarges_stdout() {
    "$bump_pipes" ruby -e 'p STDOUT.fcntl(1032)' 2>err | cat >out
    [ "$(cat out)" -gt 65536 ] || ! larger_pipes_granted
}

never_shrinks() {
    ruby -e '
        reader, writer = IO.pipe
        writer.fcntl(1031, 1 << 20) rescue nil
        before = writer.fcntl(1032)
        system(ARGV[0], "true", out: writer, in: File::NULL)
        exit(writer.fcntl(1032) >= before)' "$bump_pipes" 2>err
}

verbose_tells_both() {
    : | "$bump_pipes" -v true 2>err | cat >out
    says '^bump-pipes: stdin: .*bytes' && says '^bump-pipes: stdout: .*bytes' && [ ! -s out ]
}

verbose_without_pipes() {
    exits 0 -v true </dev/null && says '^bump-pipes: stdin: not a pipe$' &&
        says '^bump-pipes: stdout: not a pipe$'
}

survives_closed_descriptors() {
    "$bump_pipes" true <&- 2>err && "$bump_pipes" true >&- 2>err && "$bump_pipes" true 2>&-
}

needs_a_command() { exits 2 && says '^bump-pipes: nothing to execute$' && says '^usage: '; }
needs_a_command_after_dashes() { exits 2 -v -- && says '^bump-pipes: nothing to execute$'; }
refuses_unknown_option() {
    exits 2 --nonsense true && says '^bump-pipes: --nonsense: unknown option$'
}
not_found() {
    exits 127 no-such-command-anywhere &&
        says '^bump-pipes: no-such-command-anywhere: not found$'
}

cannot_execute() {
    echo 'not a program' >plain-file
    exits 126 ./plain-file && says '^bump-pipes: ./plain-file: Permission denied$'
}

cannot_execute_directory() { exits 126 / && says '^bump-pipes: /: '; }
no_shell_in_between() { exits 127 'echo hello' && says '^bump-pipes: echo hello: not found$'; }

keeps_words_apart() {
    exits 0 printf '<%s>' 'a  b' '*' "\$HOME" '' -v && [ "$(cat out)" = "<a  b><*><\$HOME><><-v>" ]
}

dashes_end_options() {
    printf '#!/bin/sh\necho ran\n' >./-v
    chmod +x ./-v
    status=0
    PATH=.:$PATH "$bump_pipes" -- -v >out 2>err || status=$?
    [ "$status" = 0 ] && [ "$(cat out)" = ran ]
}

takes_the_place() { "$bump_pipes" sh -c 'echo $$' >out 2>err & wait $!; [ "$(cat out)" = "$!" ]; }
keeps_status() { exits 7 sh -c 'exit 7' && is_silent; }
helps() { exits 0 --help && grep -q '^usage: bump-pipes.rb' out && is_silent; }

plan 19
check 'data passes unchanged, nothing is said' passes_data
check 'the pipe on stdin is enlarged' enlarges_stdin
check 'the pipe on stdout is enlarged' enlarges_stdout
check 'a larger pipe is never made smaller' never_shrinks
check '-v tells the size of both pipes on stderr' verbose_tells_both
check '-v says what is not a pipe' verbose_without_pipes
check 'closed descriptors do no harm' survives_closed_descriptors
check 'exit 2 and usage without a command' needs_a_command
check 'exit 2 with nothing after --' needs_a_command_after_dashes
check 'exit 2 for an unknown option' refuses_unknown_option
check 'exit 127 when the command is not found' not_found
check 'exit 126 when the command cannot be executed' cannot_execute
check 'exit 126 when the command is a directory' cannot_execute_directory
check 'no shell interprets the command' no_shell_in_between
check 'arguments arrive word for word' keeps_words_apart
check '-- ends the options' dashes_end_options
check 'the command takes the same process' takes_the_place
check 'the exit status is that of the command' keeps_status
check '--help explains' helps
