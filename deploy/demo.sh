#!/usr/bin/env bash
# Shows Weft's main job on this one machine: a fleet of agents on real, shaped links, a link that really
# becomes slow, the finding, the alert, a maintenance window, the way back. See `deploy/demo.sh --help`.
# Installs what is missing, builds, runs, and removes all it made except the build.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build() {
  local jobs
  jobs=$(nproc)
  cmake --preset release -DWEFT_BUILD_TESTS=OFF -DWEFT_BUILD_BENCH=OFF
  cmake --build --preset release --parallel "$jobs" \
    --target weft-server weft-agent weft-probe-fabric weft
}

# Options are checked before anything is installed or built.
if command -v python3 >/dev/null; then
  case " $* " in *" --help "* | *" -h "*) PYTHONPATH=deploy exec python3 -m demo --help ;; esac
  PYTHONPATH=deploy python3 -m demo --check-options "$@"
fi

if [ -z "${WEFT_BIN_DIR:-}" ]; then
  deploy/install_dependencies.sh build
  log=$(mktemp)
  echo "Building (the first time takes some minutes) ..." >&2
  if ! build >"$log" 2>&1; then
    tail -n 40 "$log" >&2
    echo "demo.sh: the build failed; its whole output is in $log" >&2
    exit 1
  fi
  rm -f "$log"
  WEFT_BIN_DIR=$PWD/build/release/bin
fi

export PYTHONPATH=$PWD/deploy PYTHONDONTWRITEBYTECODE=1
exec python3 -m demo --bin-dir "$WEFT_BIN_DIR" "$@"
