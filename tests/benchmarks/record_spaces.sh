#!/usr/bin/env bash
# Records twelve spaces for benchmark_trials, each of up to 200 plans: record_spaces.sh FOLDER [BENCHMARK_SWEEP]. Half an hour on two cores,
# which nothing else should use. Spaces that are there already are left as they are.
set -euo pipefail
folder=${1:?usage: record_spaces.sh FOLDER [BENCHMARK_SWEEP]}
sweep=${2:-"$(dirname "${BASH_SOURCE[0]}")/../../build/release/bin/benchmark_sweep"}
whole="gpipe,1f1b,interleaved"
split="zb1p,zb2p,zbv,v-half,1f1b-late,interleaved-late"
mkdir -p "$folder"

record() {  # NAME MODEL INPUT BATCH SCHEDULES PLANS
  [[ -e $folder/$1/plans.csv ]] && return
  echo "== $1"
  # 1: the planner's choice is behind the best, which is a result
  "$sweep" "$2" "$3" "$4" cpu:0,cpu:1 6 "$5" "$6" "$folder/$1" || [[ $? == 1 ]]
}

record mlp mlp:layers=12,width=768 "" 64 "$whole" 200
record mlp-split mlp:layers=12,width=768 "" 64 "$split" 200
record transformer transformer:d=128,layers=6,seq=32 "" 16 "$whole" 200
record transformer-split transformer:d=128,layers=6,seq=32 "" 16 "$split" 200
record transformer-wide transformer:d=256,layers=4,seq=32 "" 8 "$whole" 200
record transformer-long transformer:d=64,layers=4,seq=128 "" 16 "$split" 200
record bert bert:d=128,layers=4,heads=4,seq=32,vocab=2000 "" 16 "$whole" 200
record bert-split bert:d=128,layers=4,heads=4,seq=32,vocab=2000 "" 16 "$split" 200
record resnet18 resnet18 3x64x64 8 "$whole" 100
record resnet18-split resnet18 3x64x64 8 "$split" 100
record vgg16 vgg16:width=24,hidden=256,classes=100 3x32x32 8 "$whole" 100
record vgg16-split vgg16:width=24,hidden=256,classes=100 3x32x32 8 "$split" 100
