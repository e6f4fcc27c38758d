#!/bin/bash
# shellcheck disable=SC2016,SC2123 # text for other shells to expand; a PATH of our own on purpose
# scripts_test.sh - the helpers of run-tests.sh and run-demo.sh: what they count, install and
# compare; and what is distributed.
#
# Prints TAP.
set -eu

# shellcheck source=tests/tap.sh
. "$(dirname "$0")/../tap.sh"

scripts=$source_dir/scripts

# --- count-tests.rb: a build directory as `make check` leaves it ----------------------------------

# has_test NAME LOG RESULT... - adds a test that ran.
has_test() {
    printf '%b' "$2" >"build/$1.log"
    name=$1
    shift 2
    : >"build/$name.trs"
    for word in "$@"; do echo ":test-result: $word" >>"build/$name.trs"; done
    logs="$logs $name.log"
}

# counts LAST-LINE STATUS [MAKE-STATUS] - the count's last line and exit status are these.
counts() {
    echo "TEST_LOGS =$logs" >build/Makefile
    status=0
    ruby "$scripts/count-tests.rb" build "${3:-0}" >out 2>&1 || status=$?
    [ "$(tail -n 1 out)" = "$1" ] && [ "$status" = "$2" ]
}

new_build() {
    rm -rf build
    mkdir build
    logs=
}

counts_tap_lines() {
    new_build
    has_test tap 'ok 1\nok 2\n' PASS PASS
    has_test plain '' PASS
    counts '3 passed, 0 failed' 0
}

counts_gtest_cases() {
    new_build
    has_test gtest '[==========] Running 3 tests\n[       OK ] A.B (0 ms)\n[       OK ] A.C (0 ms)
[  SKIPPED ] A.D (0 ms)\n' PASS
    counts '2 passed, 0 failed, 1 skipped' 0
}

counts_gtest_failures_once() {
    new_build
    has_test gtest '[==========] Running 2 tests\n[       OK ] A.B (0 ms)\n[  FAILED  ] A.C (0 ms)
[  FAILED  ] 1 test, listed below:\n[  FAILED  ] A.C\n' FAIL
    counts '1 passed, 1 failed' 1 2
}

counts_gtest_crash() {
    new_build
    has_test gtest '[==========] Running 2 tests\n[       OK ] A.B (0 ms)\n[ RUN      ] A.C\n' FAIL
    counts '1 passed, 1 failed' 1 2
}

counts_failing_script_once() {
    new_build
    has_test tap 'not ok 1\nERROR: tap.sh - exited with status 1\n' FAIL ERROR
    counts '0 passed, 1 failed' 1 2
}

counts_script_that_dies() {
    new_build
    has_test tap 'ok 1\nERROR: tap.sh - exited with status 1\n' PASS ERROR
    counts '1 passed, 1 failed' 1 2
}

counts_missing_result() {
    new_build
    has_test tap 'ok 1\n' PASS
    logs="$logs never-ran.log"
    counts '1 passed, 1 failed' 1
}

counts_failing_make() {
    new_build
    has_test tap 'ok 1\n' PASS
    counts '1 passed, 1 failed' 1 2
}

counts_unexpected_pass() {
    new_build
    has_test tap '' XPASS XFAIL
    counts '1 passed, 1 failed' 1 2
}

refuses_nothing() {
    new_build
    counts '0 passed, 0 failed' 1
}

refuses_only_skips() {
    new_build
    has_test tap 'SKIP: tap.sh 1 # SKIP no reason\n' SKIP
    counts '0 passed, 0 failed, 1 skipped' 1 && grep -qx 'skipped: tap: no reason' out
}

shows_what_failed() {
    new_build
    has_test tap 'ok 1 - fine\nnot ok 2 - the sky is up\n# it fell\nok 3 - fine\n' PASS FAIL PASS
    has_test plain 'some words\nlast words\n' FAIL
    counts '2 passed, 2 failed' 1 2 && grep -qx '# it fell' out && ! grep -q fine out &&
        grep -qx 'last words' out
}

# --- the source -----------------------------------------------------------------------------------

# No #if on an architecture, and none of its names, elsewhere.
one_place_for_architectures() {
    (cd "$source_dir" &&
        ! grep -rlE '__(x86_64|aarch64)__|__builtin_ia32|x86intrin|(EM|R)_(X86_64|AARCH64)' \
            --include='*.[ch]' --include='*.cc' --exclude='*_x86_64.h' --exclude='*_aarch64.h' \
            --exclude=arch.h --exclude-dir=tests --exclude-dir='build*' --exclude-dir='check-*' .)
}

one_kind_of_banner() {
    (cd "$source_dir" &&
        ! grep -rnE '/\* (---|-{5,}) ' --include='*.[ch]' --include='*.cc' --exclude-dir=tests \
            --exclude-dir='build*' --exclude-dir='check-*' .)
}

# --- packages.sh: with dpkg-query and apt-get of our own ------------------------------------------

# machine WHO INSTALLABLE... - commands that play a system on which WHO is logged in and apt-get can
# install INSTALLABLE; what is installed stands in the file installed.
machine() {
    rm -rf system installed apt-log
    mkdir system
    touch installed apt-log
    for tool in grep tail mktemp rm cat; do ln -s "$(command -v "$tool")" "system/$tool"; done
    play id "echo $([ "$1" = root ] && echo 0 || echo 1000)"
    [ "$1" != sudoer ] || play sudo 'while [ "$1" != apt-get ]; do shift; done; as_root=1 "$@"'
    [ "$1" != root ] || export as_root=1
    shift
    play dpkg-query \
        "while read -r name; do [ \"\$name\" != \"\$3\" ] || echo installed; done <$PWD/installed"
    play apt-get "echo \"\$*\" >>$PWD/apt-log
        [ \"\${as_root:-}\" = 1 ] || { echo 'E: not root'; exit 100; }
        case \"\$*\" in *update*) exit 0 ;; esac
        while [ \"\$1\" != --no-install-recommends ]; do shift; done
        shift
        for name in \"\$@\"; do
            case ' $* ' in *\" \$name \"*) ;;
                *) echo \"E: Unable to locate package \$name\"; exit 100 ;; esac
        done
        for name in \"\$@\"; do echo \"\$name\" >>$PWD/installed; done"
}

play() {
    printf '#!/bin/sh\n%s\n' "$2" >"system/$1"
    chmod +x "system/$1"
}

# installs STATUS PACKAGE... - packages_install on that machine ends with STATUS.
installs() {
    wanted=$1
    shift
    status=0
    (
        PATH=$PWD/system
        # shellcheck source=scripts/packages.sh
        . "$scripts/packages.sh"
        packages_install demo "$@"
    ) >out 2>&1 </dev/null || status=$?
    unset as_root
    [ "$status" = "$wanted" ]
}

says_one_line() { [ "$(cat out)" = "$1" ]; }

leaves_complete_system_alone() {
    machine root && echo zip >installed && installs 0 zip && [ ! -s apt-log ] && says_one_line ''
}

takes_command_for_package() { machine user && installs 0 anything:cat && says_one_line ''; }

installs_as_root() {
    machine root zip zap && installs 0 zip zap && says_one_line 'demo: installing zip zap'
}

installs_only_missing() {
    machine root zap && echo zip >installed && installs 0 zip zap &&
        says_one_line 'demo: installing zap'
}

installs_through_sudo() {
    machine sudoer zip && installs 0 zip && says_one_line 'demo: installing zip'
}

names_missing_without_rights() {
    machine user zip && installs 1 zip zap:no-such-command &&
        says_one_line 'demo: missing packages: zip zap (not installed: neither root nor sudo)'
}

names_missing_when_apt_fails() {
    machine root && installs 1 zip &&
        [ "$(tail -n 1 \
        out)" = 'demo: missing packages: zip (not installed: E: Unable to locate package zip)' ] &&
        grep -q update apt-log
}

# --- build.sh: with a configure and a make of our own ---------------------------------------------

# builds - build_tree in a new tree; what it says is in the file err.
builds() {
    rm -rf tree
    mkdir -p tree/system
    printf '#!/bin/sh\ntouch config.status\n' >tree/configure
    printf '#!/bin/sh\nmkdir -p bin && touch bin/malloctape\n' >tree/system/make
    chmod +x tree/configure tree/system/make
    (
        cd tree
        PATH=$PWD/system:$PATH
        # shellcheck source=scripts/build.sh
        . "$scripts/build.sh"
        build_tree demo build
    ) >out 2>err </dev/null
}

build_says_what_it_does() {
    builds && grep -qx "demo: configuring in $PWD/tree/build" err &&
        grep -q '^demo: building in .*: fetches the source of gperftools, and compiles it' err
}
build_shows_what_fails() {
    builds && cd tree && printf '#!/bin/sh\necho no such header; exit 1\n' >configure &&
        rm -r build &&
        ! (. "$scripts/build.sh" && build_tree demo build) 2>../err && cd .. &&
        grep -qx 'no such header' err
}

# --- demo-report.rb -------------------------------------------------------------------------------

# write_report FILE EVENTS LIVE - a report with what all of them have and what some have.
write_report() {
    cat >"demo/$1" <<END
{"events": $2, "by_kind": {"malloc": $2, "free": 0}, "live_at_end": $3, "threads": 1,
 "lost_events": 0,
 "truncated": false}
END
}

# write_comparison EVENTS LIVE - what malloctape compare leaves of one allocator that was replayed
# once.
write_comparison() {
    write_report replay.json "$1" "$2"
    echo "{\"allocators\": [{\"entry\": \"any\", \"reports\": [$(cat demo/replay.json)]}]}" \
        >demo/compare.json
}

new_demo() {
    rm -rf demo
    mkdir demo
    write_report recorded.json 1234 5
    write_report ordered.json 1234 5
    write_comparison 1234 5
    echo 'the table' >demo/table.txt
}

compare() { ruby "$scripts/demo-report.rb" demo >out 2>&1; }

tells_agreement() {
    new_demo && compare && grep -q '^Recorded = ordered = replayed: 1 234 events' out &&
        grep -qx 'the table' out
}
tells_other_events() {
    new_demo && write_report ordered.json 4 5 && ! compare &&
        grep -qx 'ordered: malloc: 4, recorded: 1234' out
}
tells_other_live_objects() {
    new_demo && write_comparison 1234 4 && ! compare &&
        grep -qx 'replay, any: live objects at the end: 4, recorded: 5' out
}

# --- the distribution -----------------------------------------------------------------------------

distributes_everything() {
    make -C "$build_dir" distdir distdir="$scratch/distribution" >out 2>err || return 1
    git -C "$source_dir" ls-files | grep -vx .gitignore | while read -r file; do
        [ -e "distribution/$file" ] || echo "$file is not in it"
    done >out
    [ ! -s out ]
}

# Documents that messages, help and manual pages name: all are installed into one directory, so no
# message says `docs/`.
installs_documents() {
    make -C "$build_dir" install-dist_docDATA DESTDIR="$scratch/root" docdir=/doc >out 2>err ||
        return 1
    (cd "$source_dir" && grep -ohE '\b(COPYING|[A-Za-z-]+\.md)\b' */*.h */*.c */*.1) |
        grep -v '^PEAR' | sort -u | while read -r name; do
        [ -e "root/doc/$name" ] || echo "$name is not installed"
    done >missing
    (cd "$source_dir" && grep -nE '".*docs/' */*.c | grep -v '#include') >>missing
    [ -e root/doc/FORMAT.md ] && [ -e root/doc/COPYING ] && [ ! -s missing ] || ! cat missing
}

# What compare says of its own answers: README and docs/prediction.md say the same, and the latter
# has each of the figures elsewhere, too.
prediction_is_documented() {
    ruby -e 'code, *documents = ARGV.map { |file| File.read(file) }
        words = code[/^#define PREDICTION((?:.*\\\n)+.*)/, 1].scan(/"(.*?)"/).join
        figures = words.scan(/[\d.]+ %/)
        documents.map! { |text| text.gsub(/\s+(> )?/, " ") }
        puts "# #{words}"
        exit documents.size == 2 && documents.all? { |text| text.include?(words) } &&
            figures.size > 1 && figures.all? { |one| documents[1].sub(words, "").include?(one) }' \
        "$source_dir/compare/compare_table.c" "$source_dir/README.md" "$source_dir/docs/prediction.md"
}

# The files and functions that the map names, but for those of which it says NAME.
map_leads_somewhere() {
    (cd "$source_dir" && ruby -e 'map = File.read("docs/architecture.md")
        sources = Dir["{*,*/*}/*.{c,h,cc}"].map { |file| File.read(file) }.join
        files = map.scan(%r{`((?!\S*NAME)[\w/-]+\.(?:c|h|cc|rb|sh|inc|map|1))`}).flatten.uniq
        functions = map.scan(/`(\w+)\(\)`/).flatten.uniq
        gone = files.reject { |file| Dir["{,*/,*/*/}#{file}"].any? }
        gone += functions.reject { |function| sources.match?(/\b#{function}\(/) }
        text = []
        map.scan(/^\| [^|]* \| ([^|]*) \| (`[^|]*\(\)`) \|$/) do |in_files, named|
            stems = in_files.scan(%r{([\w-]+)\.(?:c|h|cc)}).flatten
            its = Dir["{*,*/*}/{#{stems.join(",")}}.{c,h,cc}"]
            text = its.map { |file| File.read(file) }.join unless stems.empty?
            named.scan(/`(\w+)\(\)`/) do |function,|
                gone << "#{function}() of #{in_files}" unless text.match?(/\b#{function}\(/)
            end
        end
        puts gone.map { |name| "# #{name} is not there" }
        exit files.size > 50 && functions.size > 50 && gone.empty?')
}

plan 31
check 'TAP lines count one by one' counts_tap_lines
check 'GoogleTest cases count one by one' counts_gtest_cases
check 'a failed GoogleTest case counts once' counts_gtest_failures_once
check 'a GoogleTest program that crashes has failed' counts_gtest_crash
check 'a failed script counts its failures, not its status' counts_failing_script_once
check 'a script that dies without a failure has failed' counts_script_that_dies
check 'a test without results has failed' counts_missing_result
check 'a make check that fails by itself has failed' counts_failing_make
check 'an unexpected pass is a failure, an expected failure is not' counts_unexpected_pass
check 'no test is no success' refuses_nothing
check 'tests that were all skipped are no success, and say why' refuses_only_skips
check 'what the log tells of a failure is shown' shows_what_failed
check 'nothing is installed where nothing is missing' leaves_complete_system_alone
check 'a command in PATH is as good as its package' takes_command_for_package
check 'root installs with apt-get' installs_as_root
check 'only what is missing is installed' installs_only_missing
check 'others install through sudo' installs_through_sudo
check 'one line names what cannot be installed' names_missing_without_rights
check 'apt-get is tried again with fresh lists, then quoted' names_missing_when_apt_fails
check 'a first build says what it does' build_says_what_it_does
check 'a build that fails shows how its log ends' build_shows_what_fails
check 'every document that something names is installed' installs_documents
check 'the document has the figures that compare tells' prediction_is_documented
check 'what docs/architecture.md names is there' map_leads_somewhere
check 'what differs between architectures stands in their files' one_place_for_architectures
check 'banners look alike' one_kind_of_banner
check 'directories include only what docs/architecture.md allows' \
    ruby "$source_dir/tests/includes.rb" "$source_dir"
check 'the demo compares reports that agree' tells_agreement
check 'the demo fails when events differ' tells_other_events
check 'the demo fails when live objects differ' tells_other_live_objects
if [ -e "$source_dir/.git" ] && git -C "$source_dir" ls-files >files 2>/dev/null &&
    [ -s files ]; then
    check 'make dist has every file' distributes_everything
else
    skip_test 'make dist has every file' 'the source is no git repository'
fi
