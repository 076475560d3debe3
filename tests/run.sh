#!/usr/bin/env bash
# Installs missing packages, builds everything and runs tests; tests/README.md says which. Without an option: the unit tests, in release.
#   --all      what CI runs: also lint, slow tests, sanitizers, and fuzzing of the readers
#   --nightly  everything: also the tests with the label nightly, all tests under sanitizers, builds of each source alone and of the benchmarks, lint of all sources; hours
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
case "${1:-} $#" in
  " 0") run=unit packages=() ;;
  "--all 1") run=ci packages=(clang libclang-rt-dev clang-format clang-tidy) ;;
  "--nightly 1") run=nightly packages=(clang libclang-rt-dev clang-format clang-tidy) ;;
  *) echo "usage: tests/run.sh [--all | --nightly]" >&2; exit 2 ;;
esac

began=$SECONDS
step() { echo; echo "== $* ($((SECONDS - began)) s)"; }
jobs=$(($(nproc) + 1))  # one more than cores: compilers and tests wait at times, and beside other work it is a larger share of the cores
build() { cmake --build --preset "$1" -j "$jobs" "${@:2}"; }
export GOMP_SPINCOUNT=0  # OpenMP's waiting threads leave the cores to others
tests() { ctest --preset "$1" -j "$jobs" --timeout 3600 "${@:2}"; }

step "packages"
cmake/install_packages.sh "${packages[@]}"
step "configure, release"
cmake --preset release
step "build, release"
build release
step "unit tests"
tests release -L unit
if [[ $run != unit ]]; then
  # A submission's commits: those of the last half day.
  since=$(git rev-list -1 --before=$(($(git log -1 --format=%ct) - 43200)) HEAD)
  fuzz_seconds=10 sanitized=OFF lint=(--since "${since:-HEAD}")
  if [[ $run == nightly ]]; then
    fuzz_seconds=600 sanitized=ON lint=(--all)
  fi
  step "slow tests"
  tests release -L slow
  step "build, address and undefined-behaviour sanitizers"
  cmake --preset asan -DMPTUNE_FUZZ=ON -DMPTUNE_FUZZ_SECONDS=$fuzz_seconds -DMPTUNE_SANITIZE_ALL=$sanitized
  build asan
  step "unit tests under sanitizers"
  tests asan -L unit
  step "fuzzing of the readers"
  tests asan -L slow -R "^fuzz\\."
  step "build, thread sanitizer"
  cmake --preset tsan -DMPTUNE_SANITIZE_ALL=$sanitized
  build tsan
  step "the runtime's tests under the thread sanitizer"
  tests tsan -L unit
  step "format and lint"
  tests/lint.sh "${lint[@]}"
fi
if [[ $run == nightly ]]; then
  # Release joins sources, which then see their neighbours' includes.
  step "build, dev: every source alone"
  cmake --preset dev
  build dev
  step "build of the benchmarks"
  build release --target benchmarks
  step "nightly tests"
  tests release -L nightly
fi
step "done"
