#!/usr/bin/env bash
# Runs every stage of the kit in this folder on this machine's GPU: run.sh [--minutes 8] [--only NAME,...] OUT. OUT/summary.txt has a line a
# stage. run.sh --help says the rest. PYTHON names another python3 than the first on the PATH.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=${PYTHON:-python3}
if ! command -v "$python" > /dev/null; then
  echo "run.sh: there is no $python; install Python 3.9 or newer with torch 2.11, or name it: PYTHON=/path/to/python3 $0" >&2
  exit 7
fi
exec "$python" -B "$here/python/run_stages.py" "$@"
