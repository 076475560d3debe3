#!/bin/sh
# run.sh [BUILD [BUDGET]]: exports the network of this folder, tunes it on two cores, trains it with the plan that was found, and loads
# the weights back into Python. Defaults: BUILD build/release, BUDGET 40s.
set -eu
source=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:-$source/../../build/release}" && pwd)
[ "$(nproc)" -ge 2 ] || { echo "two cores are needed"; exit 77; }
"$source/../python_consumer/python.sh" "$build"
mkdir -p "$build/own_python_model"
cd "$build/own_python_model"
python=$build/python_consumer/python
mptune=$build/bin/mptune
"$python" "$source/main.py" export
"$mptune" check net.pt2
# 5: the budget was too short to tell the best plans apart; a plan was written all the same.
"$mptune" tune net.pt2 --data batch.pt --batch 256 --devices cpu:0,cpu:1 --budget "${2:-40s}" --force || [ $? = 5 ]
"$mptune" run net.pt2 --plan net.study/net.plan.json --data batch.pt --steps 150 --optimizer adam --lr 1e-3 --save trained.pt
exec "$python" "$source/main.py" load
