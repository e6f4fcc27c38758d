#!/bin/bash
# guest.sh - the first process of the emulated machine: runs the tests that it is given, of a build in
# /malloctape/build, and prints what they print.
export PATH=/usr/sbin:/usr/bin HOME=/root LC_ALL=C.UTF-8
export GTEST_COLOR=no MALLOCTAPE_BUILD=/malloctape/build MALLOCTAPE_SOURCE=/malloctape/source
export MALLOCTAPE_KEPT=/tmp/kept MALLOCTAPE_CARRIED=/malloctape/carried
# Without its packages, of which tests use none, ruby begins in an eighth of the time.
export RUBYOPT=--disable=gems
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /tmp
mkdir $MALLOCTAPE_KEPT
ln -sfn /proc/self/fd /dev/fd
exec </dev/null >/dev/ttyAMA0 2>&1
stty -onlcr </dev/ttyAMA0 >/dev/null 2>&1
# A busy host lets the kernel find its own tasks late.
echo 0 >/proc/sys/kernel/hung_task_timeout_secs
# The recordings for the other machine.
carry() {
    echo "kept begins"
    tar -c -C $MALLOCTAPE_KEPT . | base64
    echo "kept ends"
}

cd $MALLOCTAPE_BUILD || exit
echo "# $(uname -m), $(nproc) processors, pages of $(getconf PAGESIZE) bytes, $(uname -r)"
while read -r name; do
    seconds=$SECONDS
    echo "test $name"
    case $name in
    *.rb) timeout -k 5 3600 ruby "$MALLOCTAPE_SOURCE/$name" ;;
    *.sh) timeout -k 5 3600 bash "$MALLOCTAPE_SOURCE/$name" ;;
    *) timeout -k 5 3600 "./$name" ;;
    esac 2>&1
    echo "status $? after $((SECONDS - seconds)) s"
    [ "$name" != tests/arm64/trials_test.sh ] || carry
done </malloctape/tests
echo "all done"
sync
echo o >/proc/sysrq-trigger
sleep 60
