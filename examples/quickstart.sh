#!/usr/bin/env bash
# Installs missing packages, builds mptune, and tunes ResNet-50 on two cores of this machine.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
cmake/install_packages.sh
cmake --preset release
cmake --build --preset release -j "$(nproc)" --target mptune mptune-worker
status=0
build/release/bin/mptune tune resnet50 --input 3x64x64 --batch 32 --devices cpu:0,cpu:1 --budget 150s -o build/quickstart.study --force "$@" || status=$?
# 5: there is a recommendation, but the budget was too short to tell the two best plans apart.
[[ "$status" == 5 ]] || exit "$status"
