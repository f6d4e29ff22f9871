"""The part of the demo on the host's side: options, the scratch folder, what is printed, and the end of it all."""

import contextlib
import dataclasses
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from demo import forward
from demo import isolation
from demo import options as all_options


class Printer:
    """The story on standard output, or on standard error when standard output is for JSON."""

    def __init__(self, json_to):
        self._out = sys.stderr if json_to == "-" else sys.stdout
        self._brief = bool(json_to)
        self._line = self._out.isatty()
        self._told = ""

    def say(self, text):
        if not self._brief:
            self._clear()
            print(text, file=self._out, flush=True)

    def progress(self, text):
        """One line that changes on a terminal; elsewhere one line per step."""
        step = text.partition(":")[0]
        if self._line:
            print(f"\r\033[K  {text}"[: shutil.get_terminal_size().columns + 4], end="", file=self._out, flush=True)
        elif step != self._told and not self._brief:
            print(f"  {step} ...", file=self._out, flush=True)
        self._told = step

    def _clear(self):
        if self._line:
            print("\r\033[K", end="", file=self._out)

    def finish(self):
        self._clear()


def _end_with_signal(number, _frame):
    sys.exit(128 + number)


def _child_of(pid):
    """Host's process id of the only child of `pid`, else `pid` itself."""
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, IndexError, ValueError):
            if int(stat.read_text().rpartition(")")[2].split()[1]) == pid:
                return int(stat.parent.name)
    return pid


class Demo:
    """Starts the inside, prints what it says, and sees to its end."""

    def __init__(self, options):
        self._options = options
        self._printer = Printer(options.json)
        self._process = None
        self._kept = False
        self._messages = {"facts": {}, "failures": ["the demo ended without a result"]}
        self._listeners = [forward.listen_on_host(forward.PAGE_PORT), forward.listen_on_host(forward.GRPC_PORT)]
        self._scratch = tempfile.mkdtemp(prefix="weft-demo-")
        self._prefix = []

    def run(self):
        prefix = None if self._options.emulate else isolation.namespace_command()
        self._prefix = prefix or []
        mine, theirs = socket.socketpair()
        with theirs:
            spec = self._spec(theirs.fileno(), namespaces=prefix is not None)
            descriptors = [theirs.fileno()] + spec["listeners"]
            self._process = isolation.start_inside(
                self._prefix, json.dumps(spec), pass_fds=descriptors, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self._log(),
            )  # fmt: skip
        self._listen(mine)
        return self._report()

    def _log(self):
        return open(os.path.join(self._scratch, "demo.log"), "wb")

    def _spec(self, control, namespaces):
        return {
            "options": dataclasses.asdict(self._options),
            "scratch": self._scratch,
            "bin_dir": self._options.bin_dir,
            "namespaces": namespaces,
            "control": control,
            "listeners": [listener.fileno() for listener in self._listeners],
            "page": self._page(),
        }

    def _page(self):
        return "http://127.0.0.1:%d" % self._listeners[0].getsockname()[1]

    def _listen(self, control):
        """Until the inside is done, or is to be left running."""
        for line in control.makefile("r", encoding="utf-8"):
            message = json.loads(line)
            if "say" in message:
                self._printer.say(message["say"])
            elif "progress" in message:
                self._printer.progress(message["progress"])
            else:
                self._messages.update(message)
            if "kept" in message:
                self._kept = True
                break
        self._printer.finish()

    def _report(self):
        failures = self._messages["failures"]
        facts = dict(self._messages["facts"], ok=not failures, failures=failures)
        if self._options.json:
            text = json.dumps(facts, indent=2) + "\n"
            if self._options.json == "-":
                sys.stdout.write(text)
            else:
                path = pathlib.Path(self._options.json)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
        else:
            self._summarise(facts)
        for failure in failures:
            print(f"demo.sh: {failure}", file=sys.stderr)
        if self._kept:
            self._say_how_to_stop()
        return 1 if failures else 0

    def _summarise(self, facts):
        if facts["ok"]:
            self._printer.say(
                f"Done: {facts['rounds']} rounds over {facts['provider']}, {facts['results_stored']} results stored, "
                f"{facts['results_lost']} lost, {facts['false_findings']} false findings, "
                f"{len(facts['webhooks'])} webhooks, all validly signed. Memory: server "
                f"{facts['server_rss_bytes'] / 1e6:.0f} MB, largest agent {facts['agent_rss_bytes'] / 1e6:.0f} MB."
            )

    def _say_how_to_stop(self):
        port = self._listeners[1].getsockname()[1]
        flags = list(self._messages["cli_flags"])
        flags[flags.index("--server") + 1] = f"127.0.0.1:{port}"
        stop = _child_of(self._process.pid) if self._prefix else self._process.pid
        print(f"Page:  {self._page()}/\n"
              f"CLI:   {self._options.bin_dir}/weft {' '.join(flags)} node list\n"
              f"Files: {self._scratch}\n"
              f"Stop:  kill {stop}", file=sys.stderr if self._options.json == "-" else sys.stdout)  # fmt: skip

    def close(self):
        """Leaves nothing behind, unless it is to be kept. Never raises."""
        if self._kept:
            return
        if self._process:
            self._end_inside()
        # Something may still be closing a file in there.
        for _ in range(20):
            shutil.rmtree(self._scratch, ignore_errors=True)
            if not os.path.exists(self._scratch):
                return
            time.sleep(0.1)

    def _end_inside(self):
        # Behind a prefix the process is `unshare`, whose end is process 1's end; without one, the inside
        # stops its children when asked.
        if not self._prefix:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(8)
        self._process.kill()
        self._process.wait()


def main():
    options, only_check = all_options.parse(sys.argv[1:])
    if only_check:
        return 0
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end_with_signal)
    demo = Demo(options)
    try:
        return demo.run()
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        demo.close()


if __name__ == "__main__":
    sys.exit(main())
