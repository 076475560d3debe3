#!/usr/bin/env bash
# Installs missing distribution packages of packages.txt and of the arguments. Without root it prints the command instead.
set -euo pipefail
missing=()
mapfile -t wanted < "$(dirname "${BASH_SOURCE[0]}")/packages.txt"
for package in "${wanted[@]}" "$@"; do
  [[ "$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)" == *" ok installed" ]] || missing+=("$package")
done
((${#missing[@]})) || exit 0
if [[ "$(id -u)" != 0 ]]; then
  echo "mptune needs packages that are not installed; run: sudo apt-get update && sudo apt-get install ${missing[*]}" >&2
  exit 1
fi
echo "Installing ${missing[*]}"
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" > /dev/null
