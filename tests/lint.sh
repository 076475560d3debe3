#!/usr/bin/env bash
# Checks format and lint: clang-format and ruff over everything, clang-tidy over the sources that changed since COMMIT (2 of them where more
# did), else over those that differ from the last commit, or over all. mypy runs in the test python.types.
#   tests/lint.sh [--since COMMIT | --all]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
ruff_pin=0.17.6
most=()
case "${1:-} $#" in
  " 0") changed() { git diff --name-only HEAD; git ls-files --others --exclude-standard; } ;;
  "--since 2") since=$2 most=(2); changed() { git diff --name-only "$since"; } ;;
  "--all 1") changed() { git ls-files; } ;;
  *) echo "usage: tests/lint.sh [--since COMMIT | --all]" >&2; exit 2 ;;
esac
cmake/install_packages.sh clang-format clang-tidy

git ls-files '*.cc' '*.h' | xargs clang-format --dry-run -Werror
ruff=build/python/ruff-$ruff_pin
[[ -x $ruff/bin/ruff ]] || python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --target "$ruff" "ruff==$ruff_pin"
"$ruff/bin/ruff" check --quiet --no-cache .

[[ -f build/dev/build.ninja ]] || cmake --preset dev > /dev/null
changed | python3 tests/support/tidy.py build/dev "${most[@]}"
