#!/usr/bin/env bash
# Installs missing packages, builds everything and runs the unit tests. --all adds slow tests, sanitizers and fuzzing of readers, as in CI.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
case "${1:-} $#" in
  " 0") all=no packages=() ;;
  "--all 1") all=yes packages=(clang libclang-rt-dev) ;;
  *) echo "usage: tests/run.sh [--all]" >&2; exit 2 ;;
esac
cmake/install_packages.sh "${packages[@]}"

step() { echo; echo "== $* ($(date +%T))"; }
step "build, release"
cmake --preset release
cmake --build --preset release
step "unit tests"
ctest --preset release -L unit -j "$(nproc)" --timeout 450
[[ $all == yes ]] || exit 0
step "slow tests"
ctest --preset release -L slow -j "$(nproc)" --timeout 1500
step "build, address and undefined-behaviour sanitizers"
cmake --preset asan -DMPTUNE_FUZZ=ON
cmake --build --preset asan
step "unit tests under sanitizers"
ctest --preset asan -L unit -j "$(nproc)" --timeout 600
step "build, thread sanitizer"
cmake --preset tsan
cmake --build --preset tsan
step "the runtime's tests under the thread sanitizer"
ctest --preset tsan -L unit -j "$(nproc)" --timeout 1200
step "fuzzing of the readers"
ctest --preset asan -L slow -R "^fuzz\\." -j "$(nproc)"
