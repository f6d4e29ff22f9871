#!/usr/bin/env python3
"""Runs weft-sim on random scenarios, every strategy on the same ones, and prints Markdown tables.

    bench/sim/table.py build/release/bin/weft-sim --seeds 50 --nodes 1024 --folder /tmp/sim [--strategies weft]

Scenarios and results stay in the folder; a result that is there is not made again. docs/SIMULATION.md defines
the numbers. Counts of all scenarios are added up before shares are taken.
"""

import argparse
import collections
import json
import pathlib
import statistics
import subprocess
import sys

STRATEGIES = ["weft", "two-pass", "rotating-partner", "fixed-floor", "group-bisection"]


def run(program, options, seed, strategy):
    """The result of one scenario, from the folder or made now."""
    stem = options.folder / f"{options.nodes}-{seed}"
    scenario = stem.with_suffix(".yaml")
    out = options.folder / f"{stem.name}-{strategy}.json"
    if not scenario.exists():
        arguments = ["--seed", seed, "--nodes", options.nodes, "--rails", options.rails, "--leaves", options.leaves,
                     "--days", options.days, "--smallest", options.smallest]
        text = subprocess.run([program, "generate", *map(str, arguments)], check=True, capture_output=True).stdout
        if options.planner_knows_busy:
            text = text.replace(b"planner_knows_busy: false", b"planner_knows_busy: true")
        scenario.write_bytes(text)
    if not out.exists():
        part = out.with_suffix(".part")
        subprocess.run([program, "run", "--scenario", scenario, "--seed", str(seed), "--json", part, "--strategy",
                        strategy], check=True)
        part.rename(out)
    return json.loads(out.read_text())


def share(part, whole):
    return f"{part / whole:.3f}" if whole else "–"


def median(values):
    return f"{statistics.median(values):g}" if values else "–"


def strategy_row(name, results):
    """One line of the table of strategies."""
    total = {key: sum(r[key] for r in results) for key in ("faults_to_find", "faults_found", "faults_right",
                                                            "false_findings", "pages_false", "probes_total")}
    node_weeks = sum(r["nodes"] * r["virtual_seconds"] for r in results) / (7 * 86400)
    rounds = [f["right_after_rounds"] for r in results for f in r["faults"] if f["right_after_rounds"] is not None]
    busy = statistics.mean(r["probe_seconds_per_node_per_day"] for r in results) / 864
    found = total["faults_found"]
    return [name, share(found, found + total["false_findings"]), share(found, total["faults_to_find"]),
            share(total["faults_right"], found), median(rounds), f"{1000 * total['pages_false'] / node_weeks:.2f}",
            f"{total['probes_total'] / node_weeks:.0f}", f"{busy:.2f}%",
            f"{statistics.median(r['wall_seconds'] for r in results):.0f}"]


def size_class(fault):
    if fault["kind"] == "failing":
        return ""
    return next(text for limit, text in ((0.1, "5–10%"), (0.15, "10–15%"), (0.2, "15–20%"), (1, "20–60%"))
                if fault["size"] < limit)


def kind_rows(results, key):
    """Lines of faults found and named right, by a key of each fault."""
    groups = collections.defaultdict(list)
    for result in results:
        for fault in result["faults"]:
            groups[key(fault)].append(fault)
    for name, faults in sorted(groups.items()):
        exposed = [f for f in faults if f["exposed"]]
        found = [f for f in exposed if f["found"]]
        right = [f for f in found if f["right"]]
        wrong = collections.Counter(f["named"]["scope"] for f in found if not f["right"])
        yield [name, len(faults), len(exposed), share(len(found), len(exposed)), share(len(right), len(found)),
               median([f["right_after_rounds"] for f in faults if f["right_after_rounds"] is not None]),
               median([f["found_after_seconds"] / 3600 for f in found]), sum(f["symptoms"] for f in faults),
               ", ".join(f"{scope} {count}" for scope, count in wrong.most_common())]


def print_table(head, rows):
    print("|", " | ".join(head), "|\n|" + "---|" * len(head))
    for row in rows:
        print("|", " | ".join(map(str, row)), "|")
    print()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--nodes", type=int, default=1024)
    parser.add_argument("--rails", type=int, default=8)
    parser.add_argument("--leaves", type=int, default=32)
    parser.add_argument("--days", type=int, default=7)
    parser.add_argument("--smallest", type=float, default=0.05)
    parser.add_argument("--planner-knows-busy", action="store_true")
    parser.add_argument("--strategies", nargs="+", choices=STRATEGIES, default=STRATEGIES)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    results = collections.defaultdict(list)
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        for strategy in options.strategies:
            print(f"seed {seed}: {strategy}", file=sys.stderr)
            results[strategy].append(run(options.program, options, seed, strategy))
    print_table(["strategy", "precision", "recall", "localisation", "rounds to the right name",
                 "false pages per 1,000 node-weeks", "probes per node-week", "share of a node's time", "wall s"],
                [strategy_row(name, found) for name, found in results.items()])
    head = ["faults", "exposed", "found", "right of found", "rounds", "hours to find", "symptoms", "wrong names"]
    for strategy, found in results.items():
        print_table([f"{strategy}: kind", *head], kind_rows(found, lambda fault: fault["kind"]))
        print_table([f"{strategy}: size", *head], kind_rows(found, size_class))
        kinds = collections.Counter((f["scope"], f["kind"]) for r in found for f in r["false_finding_list"])
        print_table(["false findings", "count"], [[" ".join(k), n] for k, n in kinds.most_common()])


if __name__ == "__main__":
    main()
