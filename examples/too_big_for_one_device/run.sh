#!/usr/bin/env bash
# run.sh [--full] [BUILD]: a model that exceeds one device's memory cap, and three remedies: a pipeline, recomputation, a smaller split size.
# Uses a small transformer (half a minute), with --full ResNet-50 (some minutes). BUILD is build/release unless given.
set -euo pipefail
source=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
model=(transformer:d=64,layers=6,heads=4,seq=64,vocab=200 --batch 32)
cap=12MiB
split=4
cuts=4
steps=10
if [[ "${1:-}" == --full ]]; then
  shift
  model=(resnet50 --input 3x64x64 --batch 32)
  cap=200MiB
  split=2
  cuts=12
fi
build=$(cd "${1:-$source/../../build/release}" && pwd)
mptune=$build/bin/mptune
[[ $(nproc) -ge 2 ]] || { echo "two cores are needed"; exit 77; }
folder=$build/too_big_for_one_device
mkdir -p "$folder"
cd "$folder"
rm -f ./*.sqlite ./*.json ./*.txt

say() { printf '\n== %s\n' "$*"; }
# Runs a command and prints the lines of its output that matter here. Fails unless it ends with the expected exit code.
show() {
  local wanted=$1 lines=$2 status=0
  shift 2
  echo "\$ mptune $*"
  "$mptune" -q "$@" >output.txt 2>errors.txt || status=$?
  grep -hE "$lines" output.txt errors.txt | fold -s -w 110 || true
  [[ $status == "$wanted" ]] || { cat errors.txt; echo "exit code $status instead of $wanted"; exit 1; }
}
train() { show 0 '^(step|peak memory|one device|pipeline)' run "${model[@]}" --steps "$steps" "$@"; }
plan() { "$mptune" -q plan costs.sqlite "$@" >>plans.txt; }
pipeline=(--stages 2 --cuts "$cuts" --schedule 1f1b --microbatches "$split")

say "The whole model on one device, the batch at once, without a cap"
"$mptune" -q profile "${model[@]}" --devices cpu:0,cpu:1 --stages 1 --microbatches 1 --steps 2 -o costs.sqlite >profile.txt
plan --devices cpu:0 --stages 1 --microbatches 1 --recompute none -o whole.plan.json
train --plan whole.plan.json

say "In $cap it does not fit. What is the smallest change?"
show 3 'does not fit' profile "${model[@]}" --devices cpu:0,cpu:1 --stages 1 --microbatches 1 --memory "$cap" --measured costs.sqlite \
  -o refused.sqlite

say "A pipeline over two devices with $split micro-batches: less, but not yet enough"
plan "${pipeline[@]}" --recompute none -o pipeline.plan.json
train --plan pipeline.plan.json
status=0
"$mptune" -q simulate --plan pipeline.plan.json --profile costs.sqlite --memory "$cap" >fit.txt || status=$?
sed -n '/^Memory/,/^$/p; /^Does not fit/,/^$/p' fit.txt
[[ $status == 3 ]] || { echo "it fits: exit code $status"; exit 1; }

say "The same pipeline with recomputation where it helps, in the cap"
plan "${pipeline[@]}" --memory "$cap" -o recompute.plan.json
train --plan recompute.plan.json --memory "$cap"

say "A smaller split instead: the fastest pipeline in the cap that computes nothing twice"
plan --stages 2 --recompute none --memory "$cap" -o split.plan.json
train --plan split.plan.json --memory "$cap"
