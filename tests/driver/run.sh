#!/bin/sh
# run.sh -- builds driver_facts without cmake and runs it: tests/driver/run.sh [driver [theme]...]
set -e
here=$(cd "$(dirname "$0")" && pwd)
build=${TMPDIR:-/tmp}/driver_facts.$$
trap 'rm -f "$build"' EXIT
"${CC:-cc}" -std=c11 -O1 -D_GNU_SOURCE -Wall -Wextra -Werror "$here"/*.c -o "$build" -ldl -lpthread
driver=${1:-libcuda.so.1}
[ $# -gt 0 ] && shift
"$build" -d "$driver" "$@"
