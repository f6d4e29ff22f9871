#!/usr/bin/env python3
"""What Weft must do on a GPU machine, tried for real; writes one JSON object, each part with what held.

    device/scenarios.py --bundle build/device/bundle.tar.xz --out FILE [--stops N] [--yields N] PART...

Parts: facts, copy, collectives, fallback, stop, slow, yield. Four agents share one GPU: each gives its probes an
NCCL_HOSTID of its own, so that NCCL takes them for four hosts and uses its network transport.
"""

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import traceback

import fleet
from fleet import Fleet, Site, wait_for

MIB = 1 << 20
HOSTS = [f"gpu{i:03d}" for i in range(4)]
FACTORS = {"all_gather": lambda n: (n - 1) / n, "all_reduce": lambda n: 2 * (n - 1) / n, "send_recv": lambda n: 1.0}


def hosts(**more):
    return {h: {"probe_environment": {"NCCL_HOSTID": h, "CUDA_VISIBLE_DEVICES": "0"}, **more} for h in HOSTS}


def nccl(name, period, group=4, deadline="60s", **parameters):
    return {"spec": {"name": name, "nccl": parameters}, "period": period, "deadline": deadline, "group_size": group}


def participants(run):
    return [p.get("result", {}) for p in run["participants"]]


def measurement(result, metric):
    return next((m for m in result.get("measurements", []) if m["metric"] == metric), None)


def facts(site, _options):
    done = subprocess.run([os.path.join(site.bin, "weft-gpu-inventory"), "--json"], env=site.environment(),
                          capture_output=True, timeout=60, check=False)
    answer = json.loads(done.stdout)
    return {"answer": answer, "holds": {"answered": done.returncode == 0}}


def judge_collective(name, run):
    """The bus bandwidth of the run, and nccl-tests' formula on its own per-rank times."""
    rank0 = participants(run)[0]
    bus = measurement(rank0, "METRIC_BUS_BANDWIDTH")
    if run["state"] != "RUN_STATE_OK" or bus is None:
        return {"state": run["state"], "detail": run.get("detail", "")}
    times = [t for r in participants(run) for t in measurement(r, "METRIC_BUS_BANDWIDTH").get("ownRankSeconds", [])]
    size = int(bus["messageSizeBytes"])
    formula = size / statistics.mean(times) * FACTORS[name](len(times))
    reported = statistics.mean(measurement(r, "METRIC_BUS_BANDWIDTH")["value"] for r in participants(run))
    report = rank0.get("nccl", {})
    return {"state": run["state"], "size": size, "ranks": len(times), "reported": reported, "formula": formula,
            "ratio": reported / formula, "spread": bus.get("ranks"), "checked": report.get("checkedBytes"),
            "received": report.get("receivedBytes"), "nccl": report.get("version"),
            "verdicts": [r.get("transport", {}).get("verdict") for r in participants(run)],
            "evidence": [f.get("evidence", [])[:4] for f in rank0.get("transport", {}).get("findings", [])],
            "uses": rank0.get("transport", {}).get("uses", [])}


def collectives(site, _options, promise=None, verdict="TRANSPORT_VERDICT_OK", name="collectives"):
    sizes = [64 * MIB]
    kinds = list(FACTORS)
    plans = [nccl(k, "10s", collective=k, message_size_bytes=sizes, iterations=10) for k in kinds]
    more = {"fabric": promise} if promise else {}
    with Fleet(site, name, plans, hosts(**more)) as weft:
        out = {}
        for kind in kinds:
            run = weft.first_good(kind) or weft.ended_runs(kind)[0]
            out[kind] = judge_collective(kind, run)
        out["runs"] = weft.outcomes()
    good = [out[k] for k in kinds]
    out["holds"] = {"all_ok": all(g["state"] == "RUN_STATE_OK" for g in good),
                    "within_5_percent": all(abs(g.get("ratio", 0) - 1) <= 0.05 for g in good),
                    "data_checked": all(int(g.get("checked") or 0) > 0 for g in good),
                    "verdict": all(set(g.get("verdicts", [])) == {verdict} for g in good)}
    return out


def fallback(site, options):
    return collectives(site, options, {"has_rdma": True}, "TRANSPORT_VERDICT_FELL_BACK_TO_TCP", "fallback")


def stop(site, options):
    """SIGSTOP of one agent's probe in mid-collective, again and again."""
    plan = nccl("wire", "1s", collective="all_reduce", message_size_bytes=[32 * MIB], iterations=60,
                init_deadline="8s", size_deadline="4s", deadline="12s")
    rng, tries = random.Random(options.seed), []
    with Fleet(site, "stop", [plan], hosts()) as weft:
        wait_for("a first good run", lambda: [r for r in weft.ended_runs() if r["state"] == "RUN_STATE_OK"], 60)
        begun = time.monotonic()
        while len(tries) < options.stops and time.monotonic() - begun < options.stop_seconds:
            tries.append(_stop_once(weft, rng))
        leftovers = {"probes": len(weft.probe_pids()), "gpu_processes": len(fleet.gpu_processes())}
        after = {r["runId"]: r for r in weft.runs()}
    times = [t["ended_after"] for t in tries]
    good_after = sum(1 for t in tries if t["next_ok"])
    return {"tries": len(tries), "named_right": sum(t["named"] for t in tries), "clean": sum(t["clean"] for t in tries),
            "next_run_ok": good_after, "ended_after_seconds": {"median": statistics.median(times), "max": max(times)},
            "odd": [t for t in tries if not (t["named"] and t["clean"] and t["next_ok"])][:5], "left": leftovers,
            "runs": len(after),
            "holds": {"all": len(tries) == options.stops and all(t["named"] and t["clean"] and t["next_ok"] for t in tries)}}


def _stop_once(weft, rng):
    active = wait_for("a run of four probes",
                      lambda: next((r for r in weft.runs(4) if r["state"] == "RUN_STATE_ACTIVE"), None)
                      if len(weft.probe_pids()) == 4 and len(fleet.gpu_processes()) == 4 else None, 60, 0.02)
    time.sleep(1.0 + rng.random())  # past the start, into the collectives
    victim = rng.choice(HOSTS)
    pids = weft.probe_pids(victim)
    if not pids:
        return {"named": False, "clean": False, "next_ok": False, "ended_after": 0, "why": "the probe was gone already"}
    os.kill(pids[0], signal.SIGSTOP)
    at = time.monotonic()
    run_id = active["runId"]
    find = lambda: next((r for r in weft.runs(8) if r["runId"] == run_id and r["state"] != "RUN_STATE_ACTIVE"), None)
    run = wait_for(f"the end of run {run_id}", find, 60)
    took = time.monotonic() - at
    rank = next(i for i, p in enumerate(run["participants"]) if p["hostname"] == victim)
    others = [r for i, r in enumerate(participants(run)) if i != rank]
    named = run["state"] in ("RUN_STATE_TIMED_OUT", "RUN_STATE_FAILED") and all(
        [int(m) for m in r.get("missingRanks", [])] == [rank] for r in others)
    try:
        wait_for("the stopped probe's end", lambda: pids[0] not in weft.probe_pids(), 20)
        clean = not os.path.exists(f"/proc/{pids[0]}")
    except TimeoutError:
        clean = False
    following = wait_for("the next run", lambda: next(
        (r for r in weft.ended_runs() if r["planTime"] > run["planTime"]), None), 60)
    return {"named": named, "clean": clean, "next_ok": following["state"] == "RUN_STATE_OK", "ended_after": took,
            "state": run["state"], "detail": run.get("detail", "")[:400], "rank": rank,
            "outcomes": [r.get("outcome") for r in participants(run)], "next": following.get("detail", "")[:200],
            "missing": [r.get("missingRanks") for r in participants(run)]}


def slow(site, options):
    """One agent's probes get a tenth of a core; pairs of hosts measure each other."""
    plan = nccl("pair", "4s", 2, "30s", collective="all_gather", message_size_bytes=[64 * MIB], iterations=10)
    detector = {"slow_runs": 3, "baseline_runs": 5}
    victim = HOSTS[2]
    with Fleet(site, "slow", [plan], hosts(), detector) as weft:
        def rated():
            return [n for n in weft.get("nodes").get("nodes", []) if float(n.get("expectedBandwidthBytesPerSecond", 0)) > 0]
        wait_for("a baseline of all", lambda: len(rated()) == len(HOSTS), 180, 0.5)
        at = time.monotonic()
        throttle = Throttle(weft, victim)
        try:
            found = wait_for("a finding", lambda: [f for f in weft.get("findings?open_only=true").get("findings", [])
                                                   if f.get("severity") != "SEVERITY_INFO"], 180, 0.5)
        finally:
            throttle.end()
        took = time.monotonic() - at
    named = [(f["scope"], f["hostnames"]) for f in found]
    return {"victim": victim, "found_after_seconds": took, "findings": found[:3], "named": named,
            "holds": {"named": all(n == ("FINDING_SCOPE_NODE", [victim]) for n in named)}}


class Throttle:
    """Keeps the probes of one agent stopped most of the time: SIGSTOP and SIGCONT."""

    def __init__(self, weft, hostname):
        self.weft, self.hostname, self.on = weft, hostname, True
        import threading
        self.thread = threading.Thread(target=self._loop, daemon=True)
        self.thread.start()

    def _signal(self, pids, number):
        for pid in pids:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def _loop(self):
        while self.on:
            pids = self.weft.probe_pids(self.hostname)
            self._signal(pids, signal.SIGSTOP)
            time.sleep(0.02)
            self._signal(pids, signal.SIGCONT)
            time.sleep(0.02)

    def end(self):
        self.on = False
        self.thread.join()


def yields(site, options):
    """A job starts during a probe: how long until the probe's processes are gone, and does none start meanwhile?"""
    plan = nccl("wire", "1s", collective="all_reduce", message_size_bytes=[64 * MIB], iterations=100,
                init_deadline="10s", size_deadline="10s", deadline="40s")
    job_script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gpu_job.py")
    tries, rng, begun_meanwhile = [], random.Random(3), 0
    with Fleet(site, "yield", [plan], hosts()) as weft:
        while len(tries) < options.yields:
            wait_for("four probes on the GPU", lambda: len(fleet.gpu_processes()) == 4 and len(weft.probe_pids()) == 4,
                     90, 0.02)
            time.sleep(0.3 + rng.random())
            job = subprocess.Popen([sys.executable, job_script, "5"], stdout=subprocess.PIPE, text=True)
            started = float(job.stdout.readline())
            wait_for("the probes' end", lambda: not weft.probe_pids(), 30, 0.005)
            tries.append(time.monotonic() - started)
            until = time.monotonic() + 2.5
            while time.monotonic() < until:
                begun_meanwhile += len(weft.probe_pids())
                time.sleep(0.02)
            job.wait()
        ended = weft.ended_runs()
    outcomes = {}
    for run in ended:
        for result in participants(run):
            outcome = result.get("outcome", "none")
            outcomes[outcome] = outcomes.get(outcome, 0) + 1
    own = sorted(float(r["yieldLatency"].rstrip("s")) for run in ended for r in participants(run) if r.get("yieldLatency"))
    tries.sort()
    return {"seconds": {"count": len(tries), "min": tries[0], "median": statistics.median(tries), "max": tries[-1]},
            "own_seconds": {"count": len(own), "median": statistics.median(own), "max": own[-1]} if own else None,
            "all_seconds": tries, "outcomes": outcomes, "probes_seen_beside_the_job": begun_meanwhile,
            "details": sorted({r.get("detail", "")[:160] for r in ended if r["state"] != "RUN_STATE_OK"})[:6],
            "holds": {"within_2_s": tries[-1] <= 2, "none_beside_the_job": begun_meanwhile == 0,
                      "counted": outcomes.get("OUTCOME_YIELDED", 0) > 0}}


def copy(site, _options):
    """The copy probe beside PyTorch's figures of the same copies."""
    plan = {"spec": {"name": "copy", "gpu_copy": {"bytes": 256 * MIB}}, "period": "15s", "deadline": "60s"}
    with Fleet(site, "copy", [plan], {HOSTS[0]: {}}) as weft:
        run = weft.first_good("copy") or weft.ended_runs("copy")[0]
        result = participants(run)[0]
        ours = {m["device"]: m["value"] for m in result.get("measurements", [])}
    peer = json.loads(subprocess.run([sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_copy.py"),
                                      str(256 * MIB)], capture_output=True, text=True, check=True).stdout)
    return {"state": run["state"], "detail": run.get("detail", ""), "weft": ours, "torch": peer,
            "holds": {"ok": run["state"] == "RUN_STATE_OK"}}


PARTS = {"facts": facts, "copy": copy, "collectives": collectives, "fallback": fallback, "stop": stop, "slow": slow,
         "yield": yields}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bundle", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--stops", type=int, default=50)
    parser.add_argument("--stop-seconds", type=float, default=480, help="stop trying after this long")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--yields", type=int, default=20)
    parser.add_argument("parts", nargs="+", choices=list(PARTS))
    options = parser.parse_args()
    site = Site(options.bundle, tempfile.mkdtemp(prefix="weft-device-"))
    out = {"nccl_library": site.nccl}
    for part in options.parts:
        begun = time.monotonic()
        try:
            out[part] = PARTS[part](site, options)
        except Exception:  # one part's failure must not cost the others their time on the machine
            out[part] = {"error": traceback.format_exc(limit=6), "logs": tails(site, part), "holds": {"ran": False}}
        out[part]["took_seconds"] = round(time.monotonic() - begun, 1)
        print(part, json.dumps(out[part].get("holds")), file=sys.stderr, flush=True)
        with open(options.out, "w") as f:  # after each part: a machine that is taken away keeps what was measured
            json.dump(out, f, indent=1)
    return 0 if all(all(out[p]["holds"].values()) for p in options.parts) else 1


def tails(site, part):
    folder = os.path.join(site.folder, part)
    logs = {}
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        if name.endswith(".log"):
            with open(os.path.join(folder, name), errors="replace") as f:
                logs[name] = f.read()[-1500:]
    return logs


if __name__ == "__main__":
    sys.exit(main())
