#!/usr/bin/env bash
# Installs what is missing of Weft's packages on Debian 12 or Ubuntu 24.04.
#   deploy/install_dependencies.sh run     what the built programs and the demo need
#   deploy/install_dependencies.sh build   also what building needs
#   deploy/install_dependencies.sh test    also what tests/run.sh needs
# Does nothing, and needs no rights, when everything is there.
set -euo pipefail

run_packages=(iproute2 util-linux openssl python3)
build_packages=(
  cmake ninja-build g++ pkg-config ccache mold
  protobuf-compiler protobuf-compiler-grpc libprotobuf-dev libgrpc++-dev libabsl-dev
  libssl-dev libcurl4-openssl-dev libsqlite3-dev zlib1g-dev libspdlog-dev libyaml-cpp-dev
  libcli11-dev prometheus-cpp-dev libfabric-dev libsmartcols-dev
)
test_packages=(
  git libgtest-dev libgmock-dev librapidcheck-dev libbenchmark-dev
  clang clang-format prometheus prometheus-node-exporter iperf3 libfabric-bin curl
)

die() {
  echo "install_dependencies.sh: $*" >&2
  exit 1
}

packages_of() {
  case "$1" in
    run) printf '%s\n' "${run_packages[@]}" ;;
    build) printf '%s\n' "${run_packages[@]}" "${build_packages[@]}" "${boost[@]}" ;;
    test)
      printf '%s\n' "${run_packages[@]}" "${build_packages[@]}" "${boost[@]}" "${test_packages[@]}"
      # A Node.js that did not come from apt is as good.
      command -v npm >/dev/null || printf '%s\n' nodejs npm
      # Fetches headers; likewise.
      python3 -m pip --version >/dev/null 2>&1 || printf '%s\n' python3-pip
      ;;
    *) die "say run, build or test, not '$1'" ;;
  esac
}

missing_of() {
  local package
  for package in "$@"; do
    dpkg-query -W -f '${Status}\n' "$package" 2>/dev/null | grep -q '^install ok installed$' || echo "$package"
  done
}

install() {
  local sudo=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || die "missing: $*. Install them as root: apt-get install $*"
    sudo=(sudo)
  fi
  echo "Installing $# packages: $*" >&2
  export DEBIAN_FRONTEND=noninteractive
  "${sudo[@]}" apt-get -qq update </dev/null >&2
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get -qq install --yes --no-install-recommends "$@" </dev/null >&2
}

[ $# -eq 1 ] || die "say what for: run, build or test"
# shellcheck disable=SC1091
. /etc/os-release
case "${ID:-}-${VERSION_ID:-}" in
  debian-12) boost=(libboost1.81-dev) ;;
  ubuntu-24.04) boost=(libboost-dev libboost-url-dev) ;;
  *)
    boost=(libboost-dev libboost-url-dev)
    echo "install_dependencies.sh: ${PRETTY_NAME:-this system} is untried; Debian 12 and Ubuntu 24.04 are known to work" >&2
    ;;
esac
command -v dpkg-query >/dev/null || die "needs Debian's package manager; install the packages in this script by hand"

mapfile -t wanted < <(packages_of "$1")
[ "${#wanted[@]}" -gt 0 ] || exit 1
mapfile -t missing < <(missing_of "${wanted[@]}")
[ "${#missing[@]}" -eq 0 ] || install "${missing[@]}"
if [ "$1" = test ] && ! "$(dirname "${BASH_SOURCE[0]}")/install_gpu_headers.sh"; then
  echo "install_dependencies.sh: no headers of CUDA and NCCL; what needs them is neither built nor tested" >&2
fi
