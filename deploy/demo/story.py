"""What happens in the demo, step by step, and what is measured on the way.

Every wait has a limit, and every expectation that fails is gathered, so that the facts are written in any case.
"""

import datetime
import random
import time

from demo import fleet as fleets
from demo import weft_cli

# Generous beside what is expected of each step; together they bound the demo.
BASELINE_ROUNDS = 15
DETECT_ROUNDS = 10
RESOLVE_ROUNDS = 12
QUIET_ROUNDS = 2
MAX_ROUNDS_TO_DETECT = 4
MAX_RATIO_ERROR = 0.1


class Failed(Exception):
    """The demo cannot go on; says why."""


def timestamp(text):
    """Seconds since 1970 of an RFC 3339 text in UTC with up to nanoseconds, as protobuf's JSON has it."""
    whole, _, fraction = text.rstrip("Z").partition(".")
    moment = datetime.datetime.fromisoformat(whole).replace(tzinfo=datetime.timezone.utc)
    return moment.timestamp() + float(f"0.{fraction or 0}")


def _rate(bytes_per_second):
    return f"{bytes_per_second / 1e6:.1f} MB/s"


class Story:
    """Tells through `say(text)` and `progress(text)`; `facts` and `failures` fill as it goes."""

    def __init__(self, fleet, links, receiver, options, say, progress):
        self._fleet, self._links, self._receiver, self._options = fleet, links, receiver, options
        self._cli = fleet.cli
        self._say, self._progress = say, progress
        self._rng = random.Random(options.seed)
        self._period = fleet.tuning.period_seconds
        self.failures = []
        self.facts = {"nodes": options.nodes, "seed": options.seed, "shaping": links.shaping}

    # --- The steps ---

    def run(self):
        self._start()
        slow = fleets.node_name(self._options.slow.index)
        mute = fleets.node_name(self._options.mute.index)
        finding = self._slow_and_find(slow)
        window, muted = self._slow_in_a_window(mute)
        self._stay_quiet(mute, muted)
        self._restore(slow, mute, finding, muted)
        self._cli.end_window(window)
        self._take_stock(slow, mute, finding, muted)

    def _start(self):
        options = self._options
        self._say(f"Seed {options.seed}. One server and {options.nodes} agents; {self._where()}")
        self._say(f"Each link carries {_rate(self._fleet.tuning.link_bytes_per_second)}; a round of probes starts "
                  f"every {self._period:g} s: each node writes to a partner, and the partner to it.")  # fmt: skip
        self._fleet.start_server()
        self._wait("the server to answer", 20, self._cli.answers)
        for index in range(options.nodes):
            self._fleet.start_agent(index)
        self._wait("the agents to connect", 20, lambda: len(self._cli.nodes()) == options.nodes)
        self._wait("enough rounds to know what is normal", BASELINE_ROUNDS * self._period, self._baseline_known,
                   self._baseline_progress)  # fmt: skip
        usual = [float(n["expected_bandwidth_bytes_per_second"]) for n in self._cli.nodes()]
        self._say(f"Every node has a baseline now: {_rate(min(usual))} to {_rate(max(usual))}.")

    def _where(self):
        if self._links.shaping == "netns":
            return "each node in its own network namespace, its link shaped by the kernel (tc tbf)."
        return "all on loopback, because this kernel allows no namespaces here: a token bucket in the probe stands for each link."

    def _slow_and_find(self, name):
        fault = self._options.slow
        fraction = self._rng.random()
        self._pause(fraction * self._period)  # anywhere within a round
        before = self._links.rate(fault.index)
        self._links.set_rate(fault.index, before * fault.ratio)
        injected = time.time()
        after = self._links.rate(fault.index)
        self._say(f"The link of {name} is slowed from {_rate(before)} to {_rate(after)}. Nobody tells Weft.")
        finding = self._wait_for_finding(name)
        detected = timestamp(finding["open_time"])
        rounds = self._rounds_between(injected, detected)
        self._say(f"Found {detected - injected:.1f} s and {rounds} rounds later. What an operator sees:")
        self._show("node", "slow")
        self._show("finding", "get", finding["finding_id"])
        self._wait("the webhook", 10, lambda: self._hooks_of(finding))
        self.facts["slow"] = {
            "node": name,
            "injected_at": _text(injected),
            "link_before_bytes_per_second": before,
            "link_after_bytes_per_second": after,
            "detected_after_seconds": round(detected - injected, 3),
            "detected_after_rounds": rounds,
            "finding": _brief(finding),
        }
        self._expect(rounds <= MAX_ROUNDS_TO_DETECT, f"detection took {rounds} rounds, more than {MAX_ROUNDS_TO_DETECT}")
        self._expect_ratio(finding, after / before)
        return finding

    def _slow_in_a_window(self, name):
        fault = self._options.mute
        window = self._cli.mute(name, 30, "cable work (demo)")
        self._say(f"Maintenance window {window} covers {name}; then its link is slowed to {fault.ratio:g} of its rate too.")
        self._links.set_rate(fault.index, self._links.rate(fault.index) * fault.ratio)
        finding = self._wait_for_finding(name)
        self._wait("the finding to be muted", 10, lambda: self._finding(finding)["muted_by"])
        self._say(f"Found as well, and muted by {', '.join(self._finding(finding)['muted_by'])}.")
        return window, finding

    def _stay_quiet(self, name, finding):
        until = self._rounds() + QUIET_ROUNDS
        self._wait("two more rounds, listening", (QUIET_ROUNDS + 3) * self._period, lambda: self._rounds() >= until)
        sent = len(self._hooks_of(finding))
        self._say(f"Notifications about {name}: {sent}.")

    def _restore(self, slow, mute, finding, muted):
        restored = time.time()
        for fault in (self._options.slow, self._options.mute):
            self._links.set_rate(fault.index, self._fleet.tuning.link_bytes_per_second)
        self._say("Both links are restored.")
        self._wait("both findings to resolve", RESOLVE_ROUNDS * self._period,
                   lambda: all(self._finding(f).get("resolve_time") for f in (finding, muted)))  # fmt: skip
        resolved = timestamp(self._finding(finding)["resolve_time"])
        self._wait("the second webhook", 10, lambda: len(self._hooks_of(finding)) >= 2)
        self.facts["resolved_after_seconds"] = round(resolved - restored, 3)
        self._say(f"{slow} resolved after {resolved - restored:.1f} s, {mute} too.")

    def _take_stock(self, slow, mute, finding, muted):
        self._wait("everything to be stored and sent", 20, self._settled)
        status = self._cli.status()
        findings = self._cli.findings()
        known = {finding["finding_id"], muted["finding_id"]}
        false = [f for f in findings if f["finding_id"] not in known]
        runs = [run for run in self._cli.runs() if run["state"] != "RUN_STATE_ACTIVE"]
        hooks = [_hook_facts(entry) for entry in self._receiver.received()]
        agents = [self._fleet.resident_bytes(fleets.node_name(i)) for i in range(self._options.nodes)]
        self.facts.update(
            rounds=int(status["rounds"]),
            provider=self._provider(slow),
            false_findings=len(false),
            mute={"node": mute, "finding_opened": True, "webhooks_sent": len(self._hooks_of(muted)),
                  "finding": _brief(muted)},
            webhooks=hooks,
            results_stored=int(status["results_stored"]),
            results_lost=_lost(status, runs),
            runs_not_ok=sum(run["state"] != "RUN_STATE_OK" for run in runs),
            server_rss_bytes=self._fleet.resident_bytes("server"),
            agent_rss_bytes=max(agents),
        )  # fmt: skip
        for other in false:
            self.failures.append(f"false finding: {other.get('summary') or other['finding_id']}")
        self._expect_webhooks(finding, muted)
        self._expect(self.facts["results_lost"] == 0, f"{self.facts['results_lost']} results were lost")

    # --- What must hold ---

    def _expect(self, holds, otherwise):
        if not holds:
            self.failures.append(otherwise)

    def _expect_ratio(self, finding, shaped):
        error = abs(finding["ratio"] - shaped)
        self._expect(error <= MAX_RATIO_ERROR, f"the finding says ratio {finding['ratio']:.2f}, the link {shaped:.2f}")

    def _expect_webhooks(self, finding, muted):
        hooks = self.facts["webhooks"]
        self._expect(all(h["signature_valid"] for h in hooks), "a webhook was not validly signed")
        types = [_hook_type(e) for e in self._hooks_of(finding)]
        self._expect(types == ["finding.opened", "finding.resolved"], f"webhooks were {types}, not one of each in order")
        self._expect(not self._hooks_of(muted), "a notification went out for the muted node")
        self._expect(len(hooks) == len(types), f"{len(hooks) - len(types)} webhooks about something else")

    # --- Asking Weft ---

    def _baseline_known(self):
        nodes = self._cli.nodes()
        return all(float(n.get("expected_bandwidth_bytes_per_second") or 0) > 0 for n in nodes)

    def _baseline_progress(self):
        return f"round {self._rounds()}"

    def _rounds(self):
        return int(self._cli.status()["rounds"])

    def _rounds_between(self, begin, end):
        """Rounds planned after `begin` and by `end`."""
        return len({r["round"] for r in self._cli.runs() if begin < timestamp(r["plan_time"]) <= end})

    def _wait_for_finding(self, name):
        found = []

        def look():
            found[:] = [f for f in self._cli.findings() if name in f["hostnames"] and f["scope"] == "FINDING_SCOPE_NODE"]
            return found

        self._wait("the finding", DETECT_ROUNDS * self._period, look, lambda: f"round {self._rounds()}")
        return found[0]

    def _finding(self, finding):
        answer = self._cli.ask("finding", "get", finding["finding_id"])
        return answer.get("finding", answer)

    def _hooks_of(self, finding):
        return [entry for entry in self._receiver.received() if _body(entry).get("dedup_key") == finding["finding_id"]]

    def _provider(self, name):
        return next((p["provider"] for p in self._cli.history(name, 20) if p.get("provider")), "")

    def _settled(self):
        status = self._cli.status()
        return int(status["outbox_pending"]) == 0 and int(status["detector_lag_results"]) == 0

    def _show(self, *arguments):
        self._say(f"\n$ weft {' '.join(arguments)}\n{self._cli.seen(*arguments)}\n")

    # --- Waiting ---

    def _pause(self, seconds):
        self._wait_until(time.monotonic() + seconds)

    @staticmethod
    def _wait_until(deadline):
        while (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, 0.5))

    def _wait(self, what, seconds, condition, detail=lambda: ""):
        """Polls: a person at the command line has no other way either."""
        begin = time.monotonic()
        while not condition():
            if dead := self._fleet.dead():
                raise Failed("; ".join(dead))
            waited = time.monotonic() - begin
            if waited > seconds:
                raise Failed(f"waited {waited:.0f} s for {what} in vain")
            self._progress(f"waiting for {what}: {waited:.0f} s {detail()}")
            time.sleep(0.5)


def _text(moment):
    return datetime.datetime.fromtimestamp(moment, datetime.timezone.utc).isoformat(timespec="milliseconds")


def _brief(finding):
    return {
        "scope": finding["scope"].removeprefix("FINDING_SCOPE_").lower(),
        "subject": ",".join(finding["hostnames"]),
        "ratio": round(finding["ratio"], 4),
        "confidence": round(finding["confidence"], 4),
    }


def _body(entry):
    return weft_cli.snake_keys(entry["body"] or {})


def _hook_type(entry):
    return _body(entry).get("type", "")


def _hook_facts(entry):
    return {
        "type": _hook_type(entry),
        "subject": ",".join(_body(entry).get("data", {}).get("hostnames", [])),
        "at": _text(entry["received_at"]),
        "signature_valid": entry["signature_valid"],
    }


def _lost(status, runs):
    """What agents say they lost, what the server refused, and results missing from runs that are over."""
    missing = sum(1 for run in runs for p in run["participants"] if not p.get("result"))
    return int(status["records_lost"]) + int(status["records_rejected"]) + missing
