#!/bin/bash
# demo_test.sh - what run-demo.sh does once everything is built, with programs of every kind.
set -euo pipefail

. "$(dirname "$0")/../tap.sh"

if [ -n "$sanitized" ] || ! command -v ruby >/dev/null || ! command -v lz4 >/dev/null; then
    echo '1..0 # SKIP needs ruby, lz4 and preloading'
    exit 0
fi

demo() { exit_status "$source_dir/scripts/demo.sh" "$build_dir" "$PWD/demo" "$@" >out 2>err; }
says() { grep -q -e "$1" err; }
ranks() { grep -q '^glibc  *[0-9]' "$1"; }

# The launcher's own calls are few; the program that it starts is compared, whatever the launcher's
# status is.
takes_the_most_calls() {
    demo sh -c "$workloads/known_calls; $workloads/threads 500; exit 3" && [ "$status" = 0 ] &&
        says 'ended with status 3' && says '3 processes were recorded' &&
        says '^    threads: [0-9 ]*$' && ranks out &&
        grep -q '^Recorded = ordered = replayed: ' out &&
        [ "$(json_value demo/recorded.json events)" -gt 20000 ]
}
commands_do_it_again() {
    rm demo/table.txt
    bash demo/commands.sh >out 2>err && ranks demo/table.txt
}
ranks_no_few_calls() {
    demo "$workloads/known_calls" && [ "$status" = 0 ] &&
        says 'calls are too few to compare allocators by' &&
        ! ranks out && grep -q '^Recorded = ordered: ' out
}
hints_at_pools() {
    cp "$workloads/known_calls" python3.x
    demo "$PWD/python3.x" && says 'PYTHONMALLOC=malloc' &&
        PYTHONMALLOC=malloc demo "$PWD/python3.x" && ! says PYTHONMALLOC
}
refuses_static() {
    demo "$workloads/nothing-there" && [ "$status" != 0 ] && says 'nothing was recorded'
}

# The program calls malloc until Ctrl-C, which comes when it has been recording for a while.
goes_on_after_interrupt() {
    ruby -rpty -e '
        # A suite in the background of a script has it ignored, and so would what it starts.
        trap("INT", "DEFAULT")
        PTY.spawn(*ARGV) do |output, input, pid|
            text = +""
            interrupted = false
            begin
                loop do
                    text << output.readpartial(4096)
                    input.write("\x03") if !interrupted && (interrupted = text.include?("calling"))
                end
            rescue EOFError, Errno::EIO
                Process.wait(pid)
            end
            print text
            exit($?.exitstatus || 99)
        end' "$source_dir/scripts/demo.sh" "$build_dir" "$PWD/demo" \
        ruby -e '100_000.times { |i| "x" * (i % 5000 + 100) }; puts "calling"
            loop { sleep 60 }' >out 2>err &&
        ranks out && grep -q '^Recorded = ordered = replayed: ' out
}

plan 6
check 'the process with the most calls is compared, whatever the status' takes_the_most_calls
check 'commands.sh does it again, past a status that is not 0' commands_do_it_again
check 'few calls get no ranking' ranks_no_few_calls
check 'a hint where a program has pools of its own' hints_at_pools
check 'nothing recorded is an error' refuses_static
check 'after Ctrl-C what was recorded is compared' goes_on_after_interrupt
