#!/usr/bin/env bash
# Builds the library with AddressSanitizer and UndefinedBehaviorSanitizer and runs the kernel tests on it, for the best
# instruction set of this machine and the ones below it. Minutes.
#   kernels/tests/sanitize.sh [isa ...]
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
python=${PYTHON:-$(command -v python)}
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
cmake -S "$here/cpu" -B "$build" -G Ninja -DSGL_SANITIZE=ON -DCMAKE_CXX_COMPILER="${CXX:-g++}" > /dev/null
ninja -C "$build" | tail -n 1
runtime=$("${CXX:-g++}" -print-file-name=libasan.so)
for isa in "${@:-avx2 generic}"; do
  for one in $isa; do
    echo "== $one"
    # Python itself leaks by design; its interned objects are not ours to judge. Link order: the runtime comes first by preload.
    SGL_OPS_LIBRARY="$build/libsgl_ops.so" SGL_CPU_ISA=$one OMP_NUM_THREADS=1 LD_PRELOAD="$runtime" \
      ASAN_OPTIONS=detect_leaks=0:handle_segv=1 UBSAN_OPTIONS=print_stacktrace=1 SGL_TEST_EXAMPLES=few PYTHONMALLOC=malloc \
      "$python" -m pytest "$here/tests" -q -x -p no:cacheprovider
  done
done
