#!/usr/bin/env bash
# Runs a command on an emulated CUDA machine: four GPUs in host memory (tests/emulation/README.md).
#   tests/emulated.sh mptune doctor
#   EMULATED_GPUS=2 tests/emulated.sh python3 train.py
# MPTUNE_BUILD names the build folder, else build/release. All processes of the command share one machine.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$(realpath -m "${MPTUNE_BUILD:-$root/build/release}")
[[ $# -gt 0 ]] || { echo "usage: tests/emulated.sh COMMAND [ARGUMENT...]" >&2; exit 2; }

libraries=(libcuda.so.1 libcudart.so.13 libcupti.so.13 libnccl.so.2 libnvrtc.so.13 libcublas.so.13 libcublasLt.so.13 libcudnn.so.9 libcufft.so.12
           libcusparse.so.12 libcusparseLt.so.0 libcurand.so.10 libcusolver.so.12 libcufile.so.0 libnvshmem_host.so.3 libmptune_emulated_missing.so)
preload=
for library in "${libraries[@]}"; do
  if [[ ! -f $build/emulation/$library ]]; then
    echo "emulated.sh: no $build/emulation/$library; build it: ninja -C $build emulated_machine" >&2
    exit 2
  fi
  preload+=${preload:+:}$build/emulation/$library
done

# What processes left behind that were killed.
for left in /dev/shm/mptune-emulated-*; do
  [[ ! ${left##*-} =~ ^[0-9]+$ || ! -e $left || -e /proc/${left##*-} ]] || rm -f "$left"
done

export EMULATED_OPERATORS=${EMULATED_OPERATORS:-$build/emulation/libmptune_emulated_operators.so}
# On some processors (AMD's) MKL rounds by where a matrix lies in memory, which no GPU does.
export MKL_CBWR=${MKL_CBWR:-COMPATIBLE}
export EMULATED_MACHINE=${EMULATED_MACHINE:-$$}
export PATH=$build/bin:$PATH
LD_PRELOAD=$preload${LD_PRELOAD:+:$LD_PRELOAD} exec "$@"
