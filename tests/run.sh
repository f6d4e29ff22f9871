#!/usr/bin/env bash
# Installs what is missing, builds and runs the tests.
#   tests/run.sh [--preset dev|asan|tsan|release|clang] [--only-ctest] [-- CTEST_OPTIONS]
# Besides ctest it checks layers, formatting, the contract and lock annotations. --only-ctest leaves these out.
# Under tsan, tests that start gRPC are left out (label rpc): the packaged gRPC reports false races. Under asan, those
# of the whole are (label e2e): they measure rates and deadlines of many processes, which the sanitizer slows too much.
# ctest's summary closes the output.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=dev
only_ctest=
usage() {
  sed -n '2,7s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  exit 2
}
while [ $# -gt 0 ]; do
  case "$1" in
    --preset) preset=${2:-} && shift 2 ;;
    --preset=*) preset=${1#*=} && shift ;;
    --only-ctest) only_ctest=1 && shift ;;
    --) shift && break ;;
    *) usage ;;
  esac
done
case "$preset" in dev | asan | tsan | release | clang) ;; *) usage ;; esac

step() { printf '\n== %s (%s s)\n' "$*" "$SECONDS"; }

check_sources() {
  step "Layers"
  python3 tests/check_layers.py
  step "Format"
  git ls-files -z -- '*.cc' '*.h' | xargs -0 --no-run-if-empty clang-format --dry-run -Werror
}

buf() { npx --no-install buf "$@"; }

check_contract() {
  step "Contract"
  [ -x node_modules/.bin/buf ] || npm ci --no-audit --no-fund --loglevel=error </dev/null
  buf lint proto
  # Against the commit before: a shallow clone has none.
  if git rev-parse --quiet --verify HEAD~1:proto/buf.yaml >/dev/null 2>&1; then
    buf breaking proto --against '.git#ref=HEAD~1,subdir=proto'
  else
    echo "no earlier commit here to compare the contract with"
  fi
}

# Objects are shared between checkouts and presets' folders where the compiler cache is installed.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

build() {
  local target=all bench=ON
  case "$preset" in
    tsan) target=weft_tests_below_grpc bench=OFF ;;
    asan) bench=OFF ;;
  esac
  step "Build ($preset)"
  cmake --preset "$preset" -DWEFT_BUILD_TESTS=ON -DWEFT_BUILD_BENCH=$bench >/dev/null
  cmake --build --preset "$preset" --parallel "$(nproc)" --target "$target" -- --quiet
}

check_locks() {
  step "Locks"
  python3 tests/check_thread_safety.py "build/$preset"
}

run_tests() {
  local left_out=()
  case "$preset" in
    tsan) left_out=(-LE 'rpc|e2e') ;;
    asan) left_out=(-LE e2e) ;;
  esac
  step "Tests ($preset)"
  ctest --test-dir "build/$preset" --output-on-failure --no-tests=error --parallel "$(nproc)" "${left_out[@]}" "$@"
}

deploy/install_dependencies.sh test
if [ -z "$only_ctest" ]; then
  check_sources
  check_contract
fi
build
[ -n "$only_ctest" ] || check_locks
run_tests "$@"
