"""What the user asked for, checked whole before anything is touched."""

import argparse
import dataclasses
import os
import random

MIN_NODES, MAX_NODES = 4, 32
MIN_RATIO, MAX_RATIO = 0.3, 0.8

EXAMPLES = """examples:
  deploy/demo.sh                                  the story, with the defaults
  deploy/demo.sh --nodes 6 --slow 2=0.5 --json -  measured facts on standard output
  deploy/demo.sh --keep                           leave the fleet running and look at the page
"""


@dataclasses.dataclass(frozen=True)
class Fault:
    """A node whose link is slowed to a share of its rate."""

    index: int
    ratio: float


@dataclasses.dataclass(frozen=True)
class Options:
    nodes: int
    slow: Fault  # the fault that people are told of
    mute: Fault  # the fault inside a maintenance window
    seed: int
    json: str  # file for the facts, "-" for standard output, "" for the story
    keep: bool
    bin_dir: str
    emulate: bool  # no namespaces even where they would work


def from_dict(values):
    """The inverse of dataclasses.asdict."""
    return Options(**{**values, "slow": Fault(**values["slow"]), "mute": Fault(**values["mute"])})


def _fault(text):
    index, separator, ratio = text.partition("=")
    if not separator:
        raise argparse.ArgumentTypeError(f"'{text}' is not INDEX=RATIO, e.g. 2=0.5")
    try:
        fault = Fault(int(index), float(ratio))
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not INDEX=RATIO, e.g. 2=0.5") from None
    if not MIN_RATIO <= fault.ratio <= MAX_RATIO:
        raise argparse.ArgumentTypeError(f"ratio {ratio} is outside {MIN_RATIO} to {MAX_RATIO}")
    return fault


def _nodes(text):
    if not text.isdigit() or not MIN_NODES <= int(text) <= MAX_NODES:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number from {MIN_NODES} to {MAX_NODES}")
    return int(text)


def _writable(path):
    """Told now, not when minutes of measuring are over. Folders that are missing are made then."""
    folder = os.path.dirname(os.path.abspath(path))
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    if path not in ("", "-") and (os.path.isdir(path) or not (os.path.isdir(folder) and os.access(folder, os.W_OK))):
        raise argparse.ArgumentTypeError(f"cannot write '{path}'")
    return path


def _parser():
    parser = argparse.ArgumentParser(
        prog="deploy/demo.sh",
        description="Runs one server and N agents on shaped links of this machine, slows a link for real, "
        "and shows what Weft makes of it. Ends 0 only if everything came out as it must.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    fault = {"type": _fault, "metavar": "INDEX=RATIO"}
    parser.add_argument("--nodes", type=_nodes, default=8, metavar="N", help="agents, 4 to 32 (default 8)")
    parser.add_argument("--slow", **fault, help="node to slow, from 0, and to which share of its link, 0.3 to 0.8")
    parser.add_argument("--mute", **fault, help="node to slow inside a maintenance window")
    parser.add_argument("--seed", type=int, help="for all that is left to chance (default: random, printed)")
    parser.add_argument("--json", type=_writable, default="", metavar="FILE", help="write the measured facts there, - for stdout")
    parser.add_argument("--keep", action="store_true", help="leave all running at the end")
    parser.add_argument(
        "--emulate-links", action="store_true", dest="emulate",
        help="no network namespaces: everything on loopback, a token bucket in the probe stands for the link",
    )
    parser.add_argument("--bin-dir", default="", help=argparse.SUPPRESS)
    parser.add_argument("--check-options", action="store_true", help=argparse.SUPPRESS)
    return parser


def _choose(rng, given, taken, nodes):
    """A given fault as it is, else one by chance on a node that is not taken."""
    index = rng.choice([i for i in range(nodes) if i not in taken])
    ratio = round(rng.uniform(MIN_RATIO, MAX_RATIO), 2)
    return given or Fault(index, ratio)


def parse(arguments):
    """Options, and whether only their check was asked for. Exits 2 with a reason on bad ones."""
    parser = _parser()
    parsed = parser.parse_args(arguments)
    for name, fault in (("--slow", parsed.slow), ("--mute", parsed.mute)):
        if fault and not 0 <= fault.index < parsed.nodes:
            parser.error(f"{name}: there is no node {fault.index}; nodes are 0 to {parsed.nodes - 1}")
    if parsed.slow and parsed.mute and parsed.slow.index == parsed.mute.index:
        parser.error("--slow and --mute name the same node; the muted fault must be on another one")
    seed = parsed.seed if parsed.seed is not None else random.SystemRandom().randrange(1, 10**6)
    rng = random.Random(seed)
    slow = _choose(rng, parsed.slow, {parsed.mute.index} if parsed.mute else set(), parsed.nodes)
    mute = _choose(rng, parsed.mute, {slow.index}, parsed.nodes)
    options = Options(parsed.nodes, slow, mute, seed, parsed.json, parsed.keep, parsed.bin_dir, parsed.emulate)
    return options, parsed.check_options
