#!/usr/bin/env bash
# An environment for each host that pins what statediff pins otherwise, or needs another Python:
#
#   hosts/tests/environments/environments.sh [HOST...]     without a name, all that run a command of docs/hosts/
#
# They hold exactly what requirements/hosts/HOST.txt says and this checkout, are in .hosts/HOST of
# the checkout (or of STATEDIFF_HOSTS), and are kept until that file or pyproject.toml changes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

# The first Python that the locks are made for: on the PATH, or one of pyenv.
find_python() {
  local version found
  for version in 3.12 3.13; do
    if "python$version" -c 'import ensurepip, venv' 2>/dev/null; then
      command -v "python$version"
      return
    fi
    command -v pyenv >/dev/null || continue
    found="$(pyenv versions --bare | grep -E "^$version\.[0-9]+$" | tail -n 1)" || continue
    if PYENV_VERSION="$found" "python$version" -c 'import ensurepip, venv' 2>/dev/null; then
      echo "$(PYENV_VERSION="$found" pyenv prefix)/bin/python$version"
      return
    fi
  done
  echo "error: Python 3.12 or 3.13 is not on the PATH, and pyenv has none" >&2
  return 1
}

# Two at once: most of the time is spent on the index's answers.
if [ "$#" -ne 1 ]; then
  [ "$#" -gt 0 ] || set -- $(sed -n 's/^```console \([a-z-][a-z-]*\)$/\1/p' docs/hosts/*.md | sort -u)
  printf '%s\n' "$@" | xargs -P 2 -n 1 hosts/tests/environments/environments.sh
  exit
fi

python="$(find_python)"
uv="${VENV:-.venv}/bin/uv" # `make setup` has it; pip takes ten times as long
for host in "$@"; do
  folder="${STATEDIFF_HOSTS:-.hosts}/$host"
  wanted="$(cat "requirements/hosts/$host.txt" pyproject.toml | sha256sum | cut -d ' ' -f 1)"
  if [ "$(cat "$folder/stamp" 2>/dev/null)" = "$wanted" ] && "$folder/bin/python" -c '' 2>/dev/null; then
    continue
  fi
  echo "making $folder"
  "$folder/bin/python" -c '' 2>/dev/null || "$python" -m venv --clear "$folder"
  rm -f "$folder/stamp"
  { [ -x "$uv" ] && "$uv" pip install --quiet --python "$folder/bin/python" --no-deps \
    -r "requirements/hosts/$host.txt"; } ||
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps \
      -r "requirements/hosts/$host.txt"
  "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps \
    --no-build-isolation -e . -e hosts -e sandboxes/git -e sandboxes/office -e sandboxes/trackers
  echo "$wanted" >"$folder/stamp"
done
