#!/usr/bin/env bash
# build.sh [BUILD [FOLDER]]: installs mptune of BUILD into FOLDER/mptune and builds the examples that are projects of their own against it, as
# users build theirs. BUILD is build/release unless given, FOLDER is BUILD/installed.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$(cd "${1:-$here/../build/release}" && pwd)
folder=${2:-$build/installed}
[[ -x $build/bin/mptune-worker ]] || { echo "build.sh: $build is no finished build; cmake --preset release && cmake --build build/release" >&2; exit 2; }
cmake --install "$build" --prefix "$folder/mptune" > /dev/null
for name in training_loop own_cpp_model; do
  cmake -G Ninja -S "$folder/mptune/share/mptune/examples/$name" -B "$folder/$name" -DCMAKE_PREFIX_PATH="$folder/mptune" -DCMAKE_BUILD_TYPE=Release
  cmake --build "$folder/$name"
done
