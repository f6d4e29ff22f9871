"""The part of the demo that lives inside its namespaces: `python3 -m demo.inside SPEC`, started by __main__.

SPEC is JSON: the options, the scratch folder, and descriptors inherited from the host's side (a control socket,
and listeners on the host for the page and for gRPC). If the host's side goes away, so does this.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import sys
import threading

from demo import fleet as fleets
from demo import forward
from demo import links as all_links
from demo import options as all_options
from demo import receiver as receivers
from demo import story as stories


class Control:
    """Tells the host's side what to print and how it ended, a JSON object per line."""

    def __init__(self, descriptor, scratch):
        self._socket = socket.socket(fileno=descriptor)
        self._scratch = scratch
        self._lock = threading.Lock()
        self._kept = False
        threading.Thread(target=self._watch, daemon=True).start()

    def send(self, **message):
        with contextlib.suppress(OSError), self._lock:
            self._socket.sendall(json.dumps(message).encode() + b"\n")

    def keep(self):
        self._kept = True

    def _watch(self):
        with contextlib.suppress(OSError):
            self._socket.recv(1)  # nothing is ever sent this way: it returns when the other side is gone
        if not self._kept:
            shutil.rmtree(self._scratch, ignore_errors=True)
            os._exit(1)  # as process 1 this ends everything; without namespaces, children die with their parent


def _make_links(namespaces, count, tuning, scratch):
    if namespaces:
        return all_links.NamespaceLinks(count, tuning.link_bytes_per_second)
    return all_links.EmulatedLinks(count, tuning.link_bytes_per_second, scratch)


def _tell(story, control):
    """Runs the story; afterwards `facts` and `failures` are complete whatever happened."""
    try:
        story.run()
    except Exception as problem:  # noqa: BLE001 (any failure is a fact to report)
        story.failures.append(str(problem) or repr(problem))
    control.send(facts=story.facts, failures=story.failures)


def _run(spec, control, stack):
    options = all_options.from_dict(spec["options"])
    tuning = fleets.Tuning.for_nodes(options.nodes)
    scratch = spec["scratch"]
    links = _make_links(spec["namespaces"], options.nodes, tuning, scratch)
    secret = receivers.new_secret()
    receiver = receivers.Receiver(links.server_address, secret)
    fleet = fleets.Fleet(scratch, spec["bin_dir"], links, options.nodes, tuning, (receiver.url, secret))
    fleet.external_url = spec["page"]
    stack.callback(fleet.close)
    fleet.write_configs()
    for descriptor, port in zip(spec["listeners"], (fleet.http_port, fleet.grpc_port)):
        forward.start(socket.socket(fileno=descriptor), (links.server_address, port))
    story = stories.Story(
        fleet, links, receiver, options, lambda text: control.send(say=text), lambda text: control.send(progress=text)
    )
    _tell(story, control)
    if options.keep:
        control.keep()
        control.send(kept=True, cli_flags=fleet.cli.flags)
        signal.pause()


def main():
    spec = json.loads(sys.argv[1])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    control = Control(spec["control"], spec["scratch"])
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, spec["scratch"], ignore_errors=True)
        try:
            _run(spec, control, stack)
        except Exception as problem:  # noqa: BLE001 (said where it is seen)
            control.send(failures=[str(problem) or repr(problem)], facts={})


if __name__ == "__main__":
    main()
