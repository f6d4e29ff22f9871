#!/usr/bin/env bash
# Puts cuda.h and nccl.h under build/gpu-headers, from the vendor's Python wheels: weft-probe-nccl is compiled
# with them and loads the libraries at run time. Does nothing when they are there. Without them, and without a
# CUDA toolkit, CMake leaves the probe out.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Any version will do; these wheels are the smallest that have what the probe uses.
wheels=(nvidia-nccl-cu12==2.19.3 nvidia-cuda-runtime-cu12==12.3.101)
headers=(nccl.h cuda.h)
folder=build/gpu-headers

have_all() {
  local header
  for header in "${headers[@]}"; do [ -f "$folder/$header" ] || return 1; done
}

! have_all || exit 0
download=$(mktemp -d)
trap 'rm -rf "$download"' EXIT
echo "Fetching ${headers[*]} from ${wheels[*]}" >&2
python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
  --platform manylinux1_x86_64 --platform manylinux2014_x86_64 --dest "$download" "${wheels[@]}" </dev/null >&2
mkdir -p "$folder"
for wheel in "$download"/*.whl; do
  python3 - "$wheel" "$folder" "${headers[@]}" <<'PYTHON'
import pathlib, sys, zipfile
wheel, folder, *headers = sys.argv[1:]
with zipfile.ZipFile(wheel) as archive:
    for name in archive.namelist():
        path = pathlib.PurePosixPath(name)
        if path.name in headers and path.parent.name == "include":
            (pathlib.Path(folder) / path.name).write_bytes(archive.read(name))
PYTHON
done
have_all || { echo "install_gpu_headers.sh: the wheels do not hold ${headers[*]}" >&2; exit 1; }
