#!/bin/bash
# check.sh SOURCE DIRECTORY [GPERFTOOLS-OPTION] - builds everything for aarch64 from the tree SOURCE, and
# runs tests in an emulated machine (guest.sh): for `make check-arm64`. The build for this machine is
# in the working directory; what each machine records, the other one orders, replays and compares.
# All is below DIRECTORY, and left for the next time; the machine that this runs on is not changed.
#
# MALLOCTAPE_ARM64_TESTS  what runs there instead, as tests/...
set -eu

here=$(cd "$(dirname "$0")" && pwd)
source_dir=$(cd "$1" && pwd)
directory=$2
gperftools=${3:-}
mkdir -p "$directory"
directory=$(cd "$directory" && pwd)
host_build=$PWD
root=$directory/root
build=$directory/build
machine=$directory/machine

# What is built with, and what runs there. All that these depend on comes with them.
build_packages='libc6-dev liblz4-dev libxxhash-dev libjansson-dev libarchive-dev libavro-dev
    libdw-dev libelf-dev libiberty-dev liblzma-dev libmicrohttpd-dev libncurses-dev zlib1g-dev
    systemtap-sdt-dev libgtest-dev'
run_packages='bash coreutils dash diffutils dpkg findutils gawk grep gzip libc-bin lz4 mount ncurses-bin
    procps python3 ruby sed sqlite3 tar util-linux'

for program in aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu aarch64-linux-gnu-g++:g++-aarch64-linux-gnu \
    qemu-system-aarch64:qemu-system-arm cpio:cpio apt-get:apt dpkg-deb:dpkg; do
    command -v "${program%:*}" >/dev/null || missing="${missing:-} ${program#*:}"
done
[ -z "${missing:-}" ] || {
    echo "check-arm64: skipped: missing:$missing (apt-get install$missing)"
    exit 0
}

say() { echo "check-arm64: $*"; }

# --- packages of the other architecture, in a place of their own ----------------------------------

apt() {
    command=$1
    shift
    "apt-$command" -q -o APT::Architecture=arm64 -o APT::Architectures=arm64 \
        -o Dir::State="$directory/apt" -o Dir::State::status="$directory/apt/status" \
        -o Dir::Cache="$directory/apt/cache" -o Debug::NoLocking=1 "$@"
}

fetch() {
    mkdir -p "$directory/apt/lists/partial" "$directory/apt/cache/archives/partial"
    : >"$directory/apt/status"
    # shellcheck disable=SC2086 # lists
    apt get update &&
        apt get install --yes --no-install-recommends --download-only $build_packages \
            $run_packages &&
        (cd "$directory/apt" && apt get download "$(apt cache depends linux-image-arm64 |
            sed -n 's/^ *Depends: \(linux-image-[0-9]\)/\1/p' | head -n 1)")
}

unpack() {
    rm -rf "$root" "$directory/system.cpio"
    mkdir -p "$root/usr/bin" "$root/usr/sbin" "$root/usr/lib"
    ln -s usr/bin usr/sbin usr/lib "$root"
    for package in "$directory"/apt/cache/archives/*.deb "$directory"/apt/linux-image-*.deb; do
        dpkg-deb --fsys-tarfile "$package" |
            tar -x --keep-directory-symlink --no-same-owner -C "$root"
    done
    ln -sf gawk "$root/usr/bin/awk"
    # Absolute links would lead out of it.
    find "$root" -lname "/*" | while read -r link; do
        ln -sfrn "$root$(readlink "$link")" "$link"
    done
}

if [ "$(cat "$directory/unpacked" 2>/dev/null)" != "$build_packages $run_packages" ]; then
    if ! fetch >"$directory/fetch.log" 2>&1; then
        say "skipped: packages for arm64 cannot be had: $(grep '^[EW]:' "$directory/fetch.log" | tail -n 1)"
        exit 0
    fi
    unpack
    echo "$build_packages $run_packages" >"$directory/unpacked"
fi

# What runs there. The recordings of trials_test.sh go to the other machine.
tests='tests/arm64/trials_test.sh tests/arm64/kills_test.sh tests/tracing/ranges_test tests/tracing/sink_test
    tests/tracing/unwind_test tests/tracing/capture_faults_test.sh tests/tracing/python_stacks_test.rb
    tests/postprocess/order_test
    tests/attach/attach_test.sh tests/tracing/follow_test.sh tests/tracing/program_follow_test.sh
    tests/scripts/pipeline_test.sh tests/tracing/shadow_test tests/stream/opaque_units_test
    tests/stream/units_test'
tests=${MALLOCTAPE_ARM64_TESTS-$tests}

# --- recordings of this machine -------------------------------------------------------------------

# trials WHAT VARIABLE=DIRECTORY - trials_test.sh here.
trials() {
    echo "test tests/arm64/trials_test.sh on this machine: $1"
    env MALLOCTAPE_BUILD="$host_build" MALLOCTAPE_SOURCE="$source_dir" "$2" timeout -k 5 1800 \
        bash "$source_dir/tests/arm64/trials_test.sh" || echo "status $?"
}

: >"$directory/log"
rm -rf "$directory/carried" "$directory/kept"
mkdir "$directory/carried" "$directory/kept"
case $tests in
*trials*) trials 'what it records' MALLOCTAPE_KEPT="$directory/carried" 2>&1 | tee -a "$directory/log" ;;
esac

# --- the build ------------------------------------------------------------------------------------

export PKG_CONFIG_LIBDIR=$root/usr/lib/aarch64-linux-gnu/pkgconfig:$root/usr/share/pkgconfig
export PKG_CONFIG_SYSROOT_DIR=$root
mkdir -p "$build"
cd "$build"
# shellcheck disable=SC2086 # none, or one word
[ -e config.status ] || "$source_dir/configure" --host=aarch64-linux-gnu $gperftools \
    CC="aarch64-linux-gnu-gcc --sysroot=$root" CXX="aarch64-linux-gnu-g++ --sysroot=$root" \
    >configure.log
# What tests need besides.
programs='tests/stream/units_test tests/stream/opaque_units_test tests/tracing/shadow_test
    tests/tracing/ranges_test tests/tracing/sink_test tests/tracing/unwind_test
    tests/tracing/capture_faults_test tests/postprocess/order_test
    tests/workloads/churn tests/workloads/life tests/workloads/threads tests/workloads/pingpong
    tests/workloads/stacks tests/workloads/shared tests/workloads/family tests/workloads/leave
    tests/workloads/hooks tests/workloads/addresses tests/workloads/cuts tests/workloads/rights
    tests/workloads/confine tests/workloads/obey tests/workloads/load tests/workloads/fake_python
    tests/workloads/fake_python_data tests/workloads/fake_python_library.so
    tests/tools/make_instructions'
# Not at once: `all` is a make of its own.
make -s -j"$(nproc)" all
# shellcheck disable=SC2086 # a list
make -s -j"$(nproc)" $programs

# --- the machine ----------------------------------------------------------------------------------

# Later files take the place of earlier ones of the same name.
pack() { cpio --quiet -o -H newc; }

rm -rf "$machine"
mkdir -p "$machine/malloctape/build/tests"
cp -r bin lib "$machine/malloctape/build"
# A link to the source in this machine.
cp --remove-destination bin/bump-pipes.rb "$machine/malloctape/build/bin"
for program in $programs; do
    mkdir -p "$machine/malloctape/build/$(dirname "$program")"
    cp "$program" "$machine/malloctape/build/$program"
done
mkdir -p "$machine/malloctape/source"
(cd "$source_dir" && tar -c --exclude=./.git --exclude='./build*' --exclude='./check-*' .) |
    tar -x -C "$machine/malloctape/source"
cp -r "$directory/carried" "$machine/malloctape"
[ ! -d "$host_build/deb-arm64" ] || cp -r "$host_build/deb-arm64" "$machine/malloctape/packages"
# shellcheck disable=SC2086 # a list
printf '%s\n' $tests >"$machine/malloctape/tests"
cp "$here/guest.sh" "$machine/init"
chmod +x "$machine/init"
mkdir -p "$machine/proc" "$machine/sys" "$machine/dev" "$machine/tmp" "$machine/root" "$machine/etc"
printf '%s\n' 'root:x:0:0:root:/root:/bin/bash' 'nobody:x:65534:65534::/:/bin/false' >"$machine/etc/passwd"
printf '%s\n' 'root:x:0:' 'nogroup:x:65534:' >"$machine/etc/group"
[ -e "$directory/system.cpio" ] || (cd "$root" &&
    find . -path ./boot -prune -o -path ./usr/lib/modules -prune -o -path ./usr/include -prune -o \
        -path ./usr/share/doc -prune -o -path ./usr/share/man -prune -o -path ./usr/share/locale -prune -o \
        -name '*.a' -prune -o -path ./usr/src -prune -o -print | pack) >"$directory/system.cpio"
(cd "$machine" && find . | pack) >"$directory/ours.cpio"
cat "$directory/system.cpio" "$directory/ours.cpio" >"$directory/initrd"

kernel=$(echo "$root"/boot/vmlinuz-*)
say "$(basename "$kernel" | sed s/vmlinuz-//), $(nproc) processors, emulated"
: >"$directory/console"
# In the background, because signals that end this script are to end the machine, too.
timeout --foreground 7200 qemu-system-aarch64 -M virt -cpu "${MALLOCTAPE_ARM64_CPU:-cortex-a72}" \
    -smp 2 -m 3072 -nographic -nic none -no-reboot -kernel "$kernel" -initrd "$directory/initrd" \
    -append 'console=ttyAMA0 quiet panic=-1' </dev/null >"$directory/console" 2>&1 &
emulator=$!
trap 'kill "$emulator" 2>/dev/null; exit 1' HUP INT TERM
tail -n +1 -f --pid="$emulator" "$directory/console" | stdbuf -oL tr -d '\r' |
    sed -u '/^kept begins/,/^kept ends/d' | tee -a "$directory/log" &
wait "$emulator" || say "the machine ended with status $?"
wait $!

# --- what it recorded, here -----------------------------------------------------------------------

tr -d '\r' <"$directory/console" | sed '1,/^kept begins/d; /^kept ends/,$d' | base64 -d |
    tar -x -C "$directory/kept" || say 'no recordings came out'
case $tests in
*trials*)
    trials 'recordings of the other one' MALLOCTAPE_CARRIED="$directory/kept" 2>&1 |
        tee -a "$directory/log"
    ;;
esac

# --- what was said --------------------------------------------------------------------------------

passed=$(grep -cE '^(ok |\[       OK \])' "$directory/log" || true)
failed=$(grep -cE '^(not ok |\[  FAILED  \] .*\()' "$directory/log" || true)
wrong=$(grep -E '^status [0-9]' "$directory/log" | grep -cvE '^status (0|77) ' || true)
grep -q '^all done' "$directory/log" || wrong=$((wrong + 1))
say "$passed passed, $failed failed$([ "$wrong" = 0 ] || echo ", $wrong tests did not end well")"
[ "$failed" = 0 ] && [ "$wrong" = 0 ]
