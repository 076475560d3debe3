#!/bin/sh
# run.sh [BUILD [BUDGET]]: tunes the network of this folder on two cores, and trains it with the plan that was found.
# BUILD is build/release unless given, BUDGET 20s.
set -eu
source=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:-$source/../../build/release}" && pwd)
[ "$(nproc)" -ge 2 ] || { echo "two cores are needed"; exit 77; }
cd "$build/bin"
# 5: the budget was too short to tell the best plans apart; a plan was written all the same.
./mptune tune ./libnet.so --batch 256 --devices cpu:0,cpu:1 --budget "${2:-20s}" --force || [ $? = 5 ]
exec ./own_cpp_model libnet.study/libnet.plan.json
