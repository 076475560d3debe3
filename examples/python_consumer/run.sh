#!/bin/sh
# run.sh [BUILD]: profiles a small transformer on two cores, plans two stages and four micro-batches for it, and passes the plan to
# consume.py. The micro-batches are of one size: Megatron-LM has no others.
# BUILD is build/release unless given.
set -eu
source=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:-$source/../../build/release}" && pwd)
model=transformer:d=64,layers=6,heads=4,seq=32,vocab=200
"$source/python.sh" "$build" || [ $? = 77 ]
cd "$build/python_consumer"
mptune=$build/bin/mptune
"$mptune" -q profile $model --devices cpu:0,cpu:1 --batch 16 --steps 3 --force -o transformer.sqlite >profile.txt
"$mptune" -q plan transformer.sqlite --stages 2 --microbatches 4 --force -o transformer.plan.json >plan.txt
exec ./python "$source/consume.py" transformer.plan.json "$mptune" $model
