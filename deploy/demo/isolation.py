"""Where the demo lives: namespaces of its own, so that nothing of the host is touched and nothing is left.

The fleet runs in a child that is process 1 of its own process, mount and network namespaces: when it ends,
however it ends, the kernel ends everything in them and takes the links away.
"""

import os
import subprocess
import sys

_UNSHARE = ["unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"]
_AS_ROOT_INSIDE = ["--user", "--map-root-user"]

# Everything that the links need, tried once: kernels and containers forbid different parts of it.
_TRIAL = """
mount -t tmpfs none /run && ip netns add a && ip link add name br type bridge &&
ip link add name v type veth peer name eth0 netns a && ip link set v master br &&
tc qdisc add dev v root tbf rate 200mbit burst 64kb latency 20ms &&
ip netns exec a tc qdisc add dev eth0 root tbf rate 200mbit burst 64kb latency 20ms
"""


def _works(prefix):
    try:
        trial = subprocess.run(
            prefix + ["sh", "-c", _TRIAL], stdin=subprocess.DEVNULL, capture_output=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return trial.returncode == 0


def namespace_command():
    """The command prefix that enters fresh namespaces, or None where the kernel allows none."""
    candidates = [_UNSHARE + _AS_ROOT_INSIDE]
    if os.geteuid() == 0:
        candidates.insert(0, _UNSHARE)
    return next((prefix for prefix in candidates if _works(prefix)), None)


def start_inside(prefix, spec, **popen):
    """Starts demo.inside with its SPEC behind the prefix (an empty one: no namespaces)."""
    return subprocess.Popen(prefix + [sys.executable, "-m", "demo.inside", spec], **popen)
