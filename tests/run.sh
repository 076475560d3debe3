#!/usr/bin/env bash
# Installs what is missing, builds everything and runs all tests, sanitizers included: the command of the README and of CI.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
cmake/install_packages.sh clang libclang-rt-dev

step() { echo; echo "== $* ($(date +%T))"; }
step "build, release"
cmake --preset release
cmake --build --preset release
step "unit tests"
ctest --preset release -L unit -j "$(nproc)" --timeout 300
step "slow tests"
ctest --preset release -L slow --timeout 1500
step "build, address and undefined-behaviour sanitizers"
cmake --preset asan -DMPTUNE_FUZZ=ON
cmake --build --preset asan
step "unit tests under sanitizers"
ctest --preset asan -L unit -j "$(nproc)" --timeout 600
step "fuzzing of the readers"
ctest --preset asan -L slow -R "^fuzz\\."
