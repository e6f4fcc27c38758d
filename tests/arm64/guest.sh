#!/bin/bash
# guest.sh - the first process of the emulated machine: runs the tests that it is given, of a build in
# /malloctape/build, and prints what they print.
export PATH=/usr/sbin:/usr/bin HOME=/root LC_ALL=C.UTF-8
export GTEST_COLOR=no MALLOCTAPE_BUILD=/malloctape/build MALLOCTAPE_SOURCE=/malloctape/source
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /tmp
ln -sfn /proc/self/fd /dev/fd
exec </dev/null >/dev/ttyAMA0 2>&1
stty -onlcr </dev/ttyAMA0 >/dev/null 2>&1
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
done </malloctape/tests
if [ -e /tmp/kept.tar ]; then
    echo "kept begins"
    base64 /tmp/kept.tar
    echo "kept ends"
fi
echo "all done"
sync
echo o >/proc/sysrq-trigger
sleep 60
