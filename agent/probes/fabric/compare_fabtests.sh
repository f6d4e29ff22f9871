#!/bin/bash
# Runs Weft's fabric probe and libfabric's own programs on loopback, in turn, and prints both: the 8 B half
# round trip and the best block of 1 MiB RMA writes. Uses fabtests (fi_rdm_pingpong, fi_rma_bw) where they are
# in PATH, else fi_pingpong of libfabric-bin for the latency alone.
# usage: compare_fabtests.sh BIN_DIR [RUNS]
set -euo pipefail
bin=${1:?usage: compare_fabtests.sh BIN_DIR [RUNS]}
runs=${2:-5}
port=$((20000 + $$ % 20000))

# peer PROGRAM ARGUMENTS...: runs a server and its client; prints what the client said.
peer() {
  local server client
  port=$((port + 1))
  timeout 60 "$@" -B "$port" >/dev/null 2>&1 &
  server=$!
  client=
  for _ in $(seq 100); do # until the server listens
    client=$(timeout 60 "$@" -P "$port" 127.0.0.1 2>/dev/null) && break
    sleep 0.05
  done
  kill "$server" 2>/dev/null || true
  wait "$server" 2>/dev/null || true
  echo "$client"
}

theirs_latency() { # PROVIDER; microseconds
  if command -v fi_rdm_pingpong >/dev/null; then
    peer fi_rdm_pingpong -p "$1" -d "$2" -S 8 -I 5000 | awk '$1 == "8" { print $(NF - 1) }'
  elif command -v fi_pingpong >/dev/null; then
    peer fi_pingpong -e rdm -p "$1" -d "$2" -S 8 -I 5000 | awk '$1 == "8" { print $(NF - 1) }'
  fi
}

theirs_bandwidth() { # PROVIDER; GB/s
  command -v fi_rma_bw >/dev/null || return 0
  peer fi_rma_bw -e rdm -o write -p "$1" -d "$2" -S 1048576 -I 1000 |
    awk '$1 ~ /^1m|^1048576/ { print $(NF - 2) / 1000 }'
}

ours() { # PROVIDER DOMAIN; "latency_us block_GB/s"
  "$bin/weft-fabric-pair" --provider "$1" --domain "$2" --iterations 5000 --bytes $((1 << 30)) --deadline 60 |
    python3 -c '
import json, sys
ranks = json.load(sys.stdin)
bandwidth = [m for r in ranks for m in r["measurements"] if "BANDWIDTH" in m["metric"]]
latency = [m for r in ranks for m in r["measurements"] if "LATENCY" in m["metric"]]
print(min(m["value"] for m in latency) * 1e6, max(m["distribution"]["p90"] for m in bandwidth) / 1e9)'
}

summary() { # VALUES...: min/median/max
  printf '%s\n' "$@" | sort -g | awk 'NF { v[++n] = $1 } END { if (n) printf "%.2f/%.2f/%.2f\n", v[1], v[int((n + 1) / 2)], v[n]; else print "-" }'
}

for path in "tcp;ofi_rxm lo" "shm shm"; do
  read -r provider domain <<<"$path"
  our_latency=() our_bandwidth=() their_latency=() their_bandwidth=()
  for _ in $(seq "$runs"); do
    read -r latency bandwidth < <(ours "$provider" "$domain")
    our_latency+=("$latency") our_bandwidth+=("$bandwidth")
    if read -r latency < <(theirs_latency "$provider" "$domain"); then their_latency+=("$latency"); fi
    if read -r bandwidth < <(theirs_bandwidth "$provider" "$domain"); then their_bandwidth+=("$bandwidth"); fi
  done
  echo "$provider: 8 B half round trip us, min/median/max of $runs: weft $(summary "${our_latency[@]}"), libfabric's $(summary "${their_latency[@]:-}")"
  echo "$provider: 1 MiB writes GB/s (weft: p90 of 32-write blocks): weft $(summary "${our_bandwidth[@]}"), fabtests $(summary "${their_bandwidth[@]:-}")"
done
