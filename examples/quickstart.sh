#!/usr/bin/env bash
# Installs what is missing, builds mptune and asks it how to split ResNet-50 over two cores of this machine.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
cmake/install_packages.sh
cmake --preset release
cmake --build --preset release --target all_installed
status=0
build/release/bin/mptune tune resnet50 --input 3x64x64 --batch 32 --devices cpu:0,cpu:1 --budget 150s -o build/quickstart.study --force "$@" || status=$?
# 5: there is a recommendation, but two finalists are too close to tell apart within the budget.
[[ "$status" == 5 ]] || exit "$status"
