#!/bin/sh
# Data and model parallelism on four devices: how busy each device is in a pipeline of four stages, and in a hybrid of two.
#   run.sh [BUILD [MODEL [OPTIONS of mptune profile ...]]]
set -eu
source=$(cd "$(dirname "$0")" && pwd)
mptune=$(cd "${1:-$source/../../build/release}" && pwd)/bin/mptune
[ $# -ge 2 ] || set -- "" transformer:d=128,layers=8,seq=64 --batch 32
shift
model=$1
shift

# Uses four cores. With fewer, four devices that sleep as long as the layers would compute.
if [ "$(nproc)" -ge 4 ]; then devices=cpu:0,cpu:1,cpu:2,cpu:3; else devices=sleep:4; fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

profile() { "$mptune" -q profile "$model" "$@" --devices $devices >"$folder/profile.txt" || [ $? = 5 ]; }
# Prints how busy each device is, without peak memory, which means nothing for sleeping devices.
utilisation() {
  COLUMNS=100 "$mptune" -q report "$1" --text >report.txt
  sed -nE '/^device  +compute/,/ idle$/{s/ +(peak|[0-9.]+ [KMG]?i?B)$//;p}' report.txt | grep .
  echo
}

echo "Before: a stage on each device, layers spread evenly"
profile "$@" --stages 4 -o before.sqlite
utilisation before.sqlite

echo "After: two stages that share the devices; the planner chooses how, and where to cut"
"$mptune" -q plan before.sqlite --stages 2 -o hybrid.plan.json >plan.txt
sed -n 2p plan.txt
profile "$@" --plan hybrid.plan.json --measured before.sqlite -o after.sqlite
utilisation after.sqlite

# 4: the hybrid is slower; 5: no verdict. Neither is a failure.
COLUMNS=100 "$mptune" -q compare before.sqlite after.sqlite >compare.txt || case $? in 4 | 5) ;; *) exit 1 ;; esac
sed -n '1p;/^Plans/,/^$/p' compare.txt
