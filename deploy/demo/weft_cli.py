"""The operators' command line, as an operator would call it."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios


class CliError(RuntimeError):
    """`weft` ended with another code than 0."""


def snake_keys(value):
    """The same JSON with snake_case keys, as the contract's field names are."""
    if isinstance(value, list):
        return [snake_keys(item) for item in value]
    if isinstance(value, dict):
        return {re.sub(r"([A-Z])", lambda m: "_" + m.group(1).lower(), k): snake_keys(v) for k, v in value.items()}
    return value


def _read_all(reader):
    parts = []
    try:
        while part := reader.read(65536):
            parts.append(part)
    except OSError:
        pass  # how Linux says that the last holder of the terminal is gone
    return b"".join(parts)


class Cli:
    """Runs `weft` against one server. `prefix` enters a namespace first; may be empty."""

    def __init__(self, binary, server, tls, prefix=()):
        self._binary = str(binary)
        self._prefix = list(prefix)
        self.flags = ["--server", server]
        if tls:
            self.flags += ["--tls-cert", tls["certificate_file"], "--tls-key", tls["key_file"],
                           "--tls-ca", tls["ca_file"]]  # fmt: skip
        else:
            self.flags += ["--insecure"]

    def text(self, *arguments):
        """What a program would read."""
        done = subprocess.run(
            self._prefix + [self._binary] + self.flags + list(arguments),
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise CliError(f"weft {' '.join(arguments)} ended with {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def seen(self, *arguments, columns=110):
        """What a person at a terminal would see, without colours."""
        ours, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        command = self._prefix + [self._binary] + self.flags + list(arguments)
        with os.fdopen(ours, "rb", buffering=0) as reader:
            with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=terminal, stderr=terminal,
                                  env=dict(os.environ, NO_COLOR="1")):  # fmt: skip
                os.close(terminal)
                shown = _read_all(reader)
        return shown.decode("utf-8", errors="replace").replace("\r\n", "\n").rstrip()

    def ask(self, *arguments):
        return snake_keys(json.loads(self.text("-o", "json", *arguments)))

    def answers(self):
        """Whether the server answers by now."""
        try:
            return bool(self.status())
        except CliError:
            return False

    def status(self):
        return self.ask("server", "status")

    def nodes(self):
        return self.ask("node", "list").get("nodes", [])

    def findings(self):
        """All findings that people could be told of, open or not."""
        return self.ask("finding", "list", "--limit", "0").get("findings", [])

    def runs(self, count=0):
        return self.ask("run", "list", "--limit", str(count)).get("runs", [])

    def history(self, node, count=200):
        return self.ask("node", "history", node, "--limit", str(count)).get("points", [])

    def mute(self, node, minutes, reason):
        made = self.ask("maintenance", "create", "--nodes", node, "--for", f"{minutes}m", "--reason", reason, "--by", "demo")
        return made.get("window", made)["window_id"]

    def end_window(self, window_id):
        return self.text("maintenance", "end", window_id, "--by", "demo")
