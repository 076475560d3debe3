#!/bin/sh
# Fails if the training step of one checkout is slower than that of another.
#   gate.sh BASE NEW MODEL [OPTIONS of mptune profile ...]
# BASE and NEW are folders, MODEL is a model's name or a file in both. Takes mptune from PATH. Prints the comparison as Markdown.
#   GATE_ROUNDS     recordings are made in the order A B B A, so many times; default: 2, four recordings a side
#   GATE_THRESHOLD  NEW may be slower by so many percent; default: 2
#   GATE_FAIL_ON    slower, or inconclusive to fail also where noise hides the answer; default: slower
#   GATE_FOLDER     where recordings, comparison.md, benchmark.json and junit.xml go; default: gate
# Exit code: 0 passed, 4 NEW is slower, 5 inconclusive; another one of mptune profile where that failed.
set -eu
if [ $# -lt 3 ] || [ ! -d "$1" ] || [ ! -d "$2" ]; then
  echo "usage: gate.sh BASE NEW MODEL [OPTIONS of mptune profile ...]; BASE and NEW are folders" >&2
  exit 2
fi
command -v mptune >/dev/null || { echo "gate.sh: mptune is not in PATH" >&2; exit 7; }
rounds=${GATE_ROUNDS:-2}
case $rounds in '' | *[!0-9]* | 0*) echo "gate.sh: GATE_ROUNDS is no whole number above 0: $rounds" >&2; exit 2 ;; esac
base=$1
new=$2
model=$3
shift 3
mkdir -p "${GATE_FOLDER:-gate}"
folder=$(cd "${GATE_FOLDER:-gate}" && pwd)
rm -f "$folder"/base*.sqlite "$folder"/new*.sqlite

# record CHECKOUT NAME NUMBER [OPTIONS]: the first recording of a side measures the layers, the others take its costs.
record() {
  checkout=$1 name=$2 number=$3
  shift 3
  if [ "$number" -gt 1 ]; then set -- "$@" --measured "$folder/${name}1.sqlite"; fi
  echo "recording $name $number" >&2
  failed=0
  (cd "$checkout" && mptune -q profile "$model" "$@" -o "$folder/$name$number.sqlite") >"$folder/$name$number.txt" || failed=$?
  # 5: the recording lost too much; compare says so.
  case $failed in 0 | 5) ;; *) exit $failed ;; esac
}

round=0
while [ $round -lt "$rounds" ]; do
  first=$((2 * round + 1))
  second=$((2 * round + 2))
  record "$base" base $first "$@"
  record "$new" new $first "$@"
  record "$new" new $second "$@"
  record "$base" base $second "$@"
  round=$((round + 1))
done

# Prints the comparison; writes comparison.md, benchmark.json and junit.xml, and appends to the job's summary.
cd "$folder"
exec mptune -q compare base*.sqlite --with new*.sqlite --markdown --github --junit junit.xml --threshold "${GATE_THRESHOLD:-2}" \
  --fail-on "${GATE_FAIL_ON:-slower}"
