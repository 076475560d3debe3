#!/usr/bin/env bash
# Packs what tells whether mptune works on a machine with a GPU: pack.sh [FOLDER], build/gpu-kit unless given. README.md says how it is used.
# Builds the release first; BUILD names a finished build to pack instead. A FOLDER that is there is replaced only if it is a kit.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$here/../..
kit=${1:-$root/build/gpu-kit}
most_mb=60

fail() { echo "pack.sh: $1" >&2; exit "${2:-1}"; }
[[ $# -le 1 && $kit != -* ]] || fail "usage: pack.sh [FOLDER]" 2
if [[ -e $kit ]]; then
  [[ -f $kit/run.sh && -d $kit/python ]] || fail "$kit is there and is no kit; name a new folder" 2
  rm -r "$kit"
fi

if [[ -z ${BUILD:-} ]]; then
  "$root/cmake/install_packages.sh"
  (cd "$root" && cmake --preset release && cmake --build --preset release -j "$(nproc)")
  BUILD=$root/build/release
fi
command -v patchelf > /dev/null || fail "patchelf is missing; run cmake/install_packages.sh" 7
mapfile -t tests < <(ctest --test-dir "$BUILD" -N -L gpu | sed -n 's/^.*: \(test_[a-z_]*\)\.gpu\..*$/\1/p' | sort -u)
[[ ${#tests[@]} -gt 0 && -f $BUILD/bin/libmptune_cuda.so && -f $BUILD/bin/libmptune_injection.so ]] ||
  fail "$BUILD was built without GPUs; it needs LibTorch 2.11 and CUDA's headers (MPTUNE_CUDA=ON)" 7

mkdir -p "$kit/bin" "$kit/python"
for name in mptune mptune-worker libmptune_cuda.so libmptune_injection.so benchmark_recording "${tests[@]}"; do
  cp "$BUILD/bin/$name" "$kit/bin/"
  strip "$kit/bin/$name"
  patchelf --remove-rpath "$kit/bin/$name"  # LibTorch is that of the other machine
done
cp "$here"/*.py "$kit/python/"
rm -f "$kit/python/test_kit.py"
cp "$here/run.sh" "$here/README.md" "$kit/"

kilobytes=$(du -sk --apparent-size "$kit" | cut -f1)
echo "$kit: $((kilobytes / 1024)) MiB, $(ls "$kit/bin" | wc -l) programs and libraries"
((kilobytes * 1024 <= most_mb * 1000000)) || fail "the kit may have $most_mb MB at the most"
