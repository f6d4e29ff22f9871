#!/usr/bin/env bash
# Packs the programs of a build with the libraries they need, for a GPU machine that has neither.
#   device/bundle.sh [BIN_DIR] [OUT.tar.xz]     default: build/release/bin, build/device/bundle.tar.xz
# There: unpack; the programs find lib beside their own folder. The C and C++ runtimes are left out: that machine's own must be at
# least as new as this one's.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

bin_dir=${1:-build/release/bin}
out=${2:-build/device/bundle.tar.xz}
programs=(weft-server weft-agent weft weft-probe-fabric weft-probe-nccl weft-probe-gpu-copy weft-gpu-inventory)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/bin" "$work/lib" "$(dirname "$out")"

for program in "${programs[@]}"; do
  [ -x "$bin_dir/$program" ] || continue
  strip -o "$work/bin/$program" "$bin_dir/$program"
  ldd "$bin_dir/$program" | awk '$3 ~ /^\// { print $3 }'
done | sort -u | grep -Ev '/(ld-linux|libc|libm|libdl|librt|libpthread|libresolv|libstdc\+\+|libgcc_s)[.-]' |
  while read -r library; do cp -L "$library" "$work/lib/"; done

tar -C "$work" -cJf "$out" bin lib
du -h "$out"
