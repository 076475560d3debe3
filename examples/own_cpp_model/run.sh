#!/bin/sh
# run.sh [FOLDER [BUDGET]]: tunes the network of this folder on two cores, and trains it with the plan that was found.
# FOLDER is what examples/build.sh made, build/release/installed unless given; BUDGET is 20s.
set -eu
source=$(cd "$(dirname "$0")" && pwd)
folder=${1:-$source/../../build/release/installed}
[ "$(nproc)" -ge 2 ] || { echo "two cores are needed"; exit 77; }
[ -x "$folder/own_cpp_model/own_cpp_model" ] || { echo "run.sh: $folder holds no built example; run examples/build.sh" >&2; exit 2; }
cd "$folder/own_cpp_model"
# 5: the budget was too short to tell the best plans apart; a plan was written all the same.
../mptune/bin/mptune tune ./libnet.so --batch 256 --devices cpu:0,cpu:1 --budget "${2:-20s}" --force || [ $? = 5 ]
exec ./own_cpp_model libnet.study/libnet.plan.json
