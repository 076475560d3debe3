#!/bin/sh
# python.sh BUILD: writes BUILD/python_consumer/python, which starts a Python with torch: the system's Python, or one with the torch that
# mptune was built with and its dependencies from pip. Exits with 77 if neither is available.
set -eu
build=$(cd "$1" && pwd)
here=$build/python_consumer
# Bytecode lies in the build folder: pip compiles none of torch, and each start would take seconds.
cache="export PYTHONPYCACHEPREFIX='$build/pycache'"
mkdir -p "$here"
works() { "$here/python" -c 'import torch' 2>"$here/why.txt"; }
if [ -x "$here/python" ] && works; then exit 0; fi
printf '#!/bin/sh\n%s\nexec python3 -W ignore "$@"\n' "$cache" >"$here/python"
chmod +x "$here/python"
if works; then exit 0; fi

root=$(sed -n 's/^MPTUNE_TORCH_ROOT:PATH=//p' "$build/CMakeCache.txt")
[ -n "$root" ] || root=$(ls -d "$build"/../python/torch-*/torch | tail -1)
venv=$here/venv
python3 -m venv "$venv" && "$venv/bin/pip" install --quiet --no-compile --disable-pip-version-check --timeout 20 numpy typing-extensions sympy networkx \
  jinja2 fsspec filelock nvidia-cusparselt-cu13==0.8.0 nvidia-nvshmem-cu13==3.4.5 'nvidia-cufile==1.15.*' || {
  echo 'pip could not install what torch needs, so the split is not tried'; exit 77; }
cat >"$here/python" <<END
#!/bin/sh
$cache
export PYTHONPATH='$(dirname "$root")'\${PYTHONPATH:+:\$PYTHONPATH} LD_LIBRARY_PATH='$(ls -d "$venv"/lib/python3*/site-packages/nvidia/*/lib | paste -sd:)'
exec '$venv/bin/python' -W ignore "\$@"
END
works || { echo "torch can't be imported, so the split is not tried: $(tail -1 "$here/why.txt")"; exit 77; }
