#!/usr/bin/env python3
"""Runs weft-probe-nccl's participants on this machine without server and agents, and prints their results as JSON.

    device/nccl_direct.py --bin build/dev/bin [--participants 4] [--gpus-each 1] [--collective all_gather]
                          [--sizes 1M,64M] [--repeat 50] [--stop-rank 2 --stop-in timed] ...

Each participant is one node: it gets an NCCL_HOSTID of its own, so that NCCL takes participants for hosts and speaks
over its network even on one GPU. By default every participant sees all GPUs; --gpus-each K gives participant P the
GPUs P*K to P*K+K-1, counted round where there are fewer.

--stop-rank stops that participant's process (SIGSTOP) once it is in a phase that begins with --stop-in; --kill-rank
kills it there. Without either every participant must be OK. Exit code 0: as expected, in every repetition.

Needs Python alone: it reads the contract's .proto files itself. Environment that begins with NCCL_, CUDA_, FI_ or WEFT_
goes to the probes, as do PATH and LD_LIBRARY_PATH: WEFT_NCCL_LIBRARY names the libnccl.so.2 to load.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def varint(value):
    out = bytearray()
    while True:
        out.append((value & 127) | (128 if value > 127 else 0))
        value >>= 7
        if not value:
            return bytes(out)


class Message:
    """Bytes of a protobuf message, field after field: enough for requests, without generated code."""

    def __init__(self):
        self.bytes = b""

    def number(self, field, value):
        if value:
            self.bytes += varint(field << 3) + varint(int(value))
        return self

    def blob(self, field, value):
        data = value.bytes if isinstance(value, Message) else value.encode() if isinstance(value, str) else value
        if data:
            self.bytes += varint(field << 3 | 2) + varint(len(data)) + data
        return self

    def message(self, field, value):
        self.bytes += varint(field << 3 | 2) + varint(len(value.bytes)) + value.bytes
        return self


def fields(data):
    """Pairs (field, value) of a message: int for varints, float for doubles, bytes for the rest."""
    at = 0

    def take():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = take()
        kind = key & 7
        if kind == 0:
            yield key >> 3, take()
        elif kind == 1:
            yield key >> 3, struct.unpack("<d", data[at:at + 8])[0]
            at += 8
        elif kind == 2:
            size = take()
            yield key >> 3, data[at:at + size]
            at += size
        else:
            raise ValueError(f"wire type {kind}")


class Schema:
    """Names, types and numbers of the contract's messages, read from the .proto files."""

    FIELD = re.compile(r"^\s*(repeated\s+)?([\w.]+)\s+(\w+)\s*=\s*(\d+);", re.M)

    def __init__(self, folder):
        self.messages, self.enums = {}, {}
        for path in sorted(folder.glob("*.proto")):
            text = re.sub(r"//.*", "", path.read_text())
            for kind, name, body in self.blocks(text):
                if kind == "enum":
                    self.enums[name] = {int(n): v for v, n in re.findall(r"(\w+)\s*=\s*(\d+);", body)}
                else:
                    self.messages[name] = {int(n): (field, of, bool(many))
                                           for many, of, field, n in self.FIELD.findall(body)}

    @staticmethod
    def blocks(text):
        for match in re.finditer(r"^(message|enum)\s+(\w+)\s*\{", text, re.M):
            depth, at = 1, match.end()
            while depth:
                depth += {"{": 1, "}": -1}.get(text[at], 0)
                at += 1
            yield match[1], match[2], text[match.end():at - 1]

    def decode(self, name, data):
        known, out = self.messages[name], {}
        for number, value in fields(data):
            if number not in known:
                continue
            field, of, many = known[number]
            for item in self.values(of, value, many):
                if many:
                    out.setdefault(field, []).append(item)
                else:
                    out[field] = item
        return out

    def values(self, of, value, many):
        if of in self.messages:
            return [self.decode(of, value)]
        if of in self.enums:
            return [self.enums[of].get(value, value)]
        if of == "google.protobuf.Duration":
            parts = dict(fields(value))
            return [parts.get(1, 0) + parts.get(2, 0) / 1e9]
        if of in ("string", "bytes"):
            return [value.decode(errors="replace")]
        if of == "bool":
            return [bool(value)]
        if many and of == "double" and isinstance(value, bytes):  # packed
            return list(struct.unpack(f"<{len(value) // 8}d", value))
        if many and isinstance(value, bytes):
            return [v for v in self.packed(value)]
        return [value]

    @staticmethod
    def packed(data):
        value = shift = 0
        for byte in data:
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                yield value
                value = shift = 0


def duration(seconds):
    return Message().number(1, int(seconds)).number(2, int(seconds % 1 * 1e9))


def enum_number(schema, enum, text):
    name = re.sub(r"(?<!^)(?=[A-Z])", "_", enum).upper() + "_" + text.upper()
    for number, known in schema.enums[enum].items():
        if known == name:
            return number
    sys.exit(f"{text}: known are " + ", ".join(n.lower() for n in schema.enums[enum].values()))


def nccl_probe(options, schema):
    probe = Message().number(1, enum_number(schema, "NcclCollective", options.collective))
    sizes = b"".join(varint(size) for size in options.sizes)
    probe.blob(2, sizes)
    probe.number(3, enum_number(schema, "NcclDataType", options.data_type))
    probe.number(4, options.iterations).number(5, options.warm_up)
    probe.number(6, enum_number(schema, "NcclTiming", options.timing))
    probe.number(7, enum_number(schema, "NcclPlacement", options.placement))
    probe.number(8, options.skip_data_check).number(9, options.rail_split)
    probe.blob(10, options.require_network)
    probe.message(11, duration(options.init_deadline)).message(12, duration(options.size_deadline))
    return probe


def request(options, schema, rank, world, rendezvous):
    spec = Message().blob(1, "direct")
    if options.gpu_copy:
        spec.message(4, Message().number(1, options.sizes[0]).number(2, options.iterations))
    else:
        spec.message(3, nccl_probe(options, schema))
    return (Message().blob(1, "direct").message(2, spec).number(3, rank).number(4, world).blob(5, rendezvous)
            .message(6, duration(options.deadline)).bytes)


class Participant:
    """One probe process and what it says, as its agent would see it."""

    def __init__(self, options, schema, rank, rendezvous):
        self.rank, self.options, self.schema = rank, options, schema
        self.phases, self.result, self.rendezvous = [], None, threading.Event()
        self.offer, self.acted = b"", False
        self.started = time.monotonic()
        self.process = self.start(request(options, schema, rank, options.participants, rendezvous))
        self.thread = threading.Thread(target=self.listen)
        self.thread.start()

    def environment(self):
        env = {k: v for k, v in os.environ.items()
               if k.startswith(("NCCL_", "CUDA_", "FI_", "WEFT_")) or k in ("PATH", "LD_LIBRARY_PATH")}
        env.pop("WEFT_AGENT_PID", None)
        env["NCCL_HOSTID"] = f"direct-{self.rank}"
        if self.options.same_host:
            env.pop("NCCL_HOSTID")
        each = self.options.gpus_each
        if each:
            count = self.options.gpus or gpu_count()
            first = self.rank * each
            env["CUDA_VISIBLE_DEVICES"] = ",".join(str(i % max(count, 1)) for i in range(first, first + each))
        env.update(item.split("=", 1) for item in self.options.env)
        return env

    def start(self, message):
        read_end, write_end = os.pipe()
        # Descriptor 3 in the child, wherever the pipe lies here.
        def arrange():
            os.dup2(write_end, 3)
            os.setpgid(0, 0)
        executable = "weft-probe-gpu-copy" if self.options.gpu_copy else "weft-probe-nccl"
        process = subprocess.Popen([self.options.bin / executable], stdin=subprocess.PIPE,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=self.environment(),
                                   pass_fds=(3,), preexec_fn=arrange, cwd="/")
        os.close(write_end)
        process.stdin.write(struct.pack("<I", len(message)) + message)
        process.stdin.close()
        self.replies = os.fdopen(read_end, "rb")
        return process

    def listen(self):
        while True:
            head = self.replies.read(4)
            if len(head) < 4:
                break
            data = self.replies.read(struct.unpack("<I", head)[0])
            for field, value in fields(data):
                self.take(field, value)
        self.rendezvous.set()

    def take(self, field, value):
        if field == 1:
            self.offer = value
            self.rendezvous.set()
        elif field == 2:
            self.result = self.schema.decode("Result", value)
            self.answered = time.monotonic()
        elif field == 3:
            self.phases.append((round(time.monotonic() - self.started, 3), value.decode()))
            self.act(value.decode())

    def act(self, phase):
        if self.acted or not phase.startswith(self.options.stop_in):
            return
        for rank, number in ((self.options.stop_rank, signal.SIGSTOP), (self.options.kill_rank, signal.SIGKILL)):
            if rank == self.rank:
                self.acted = True
                time.sleep(self.options.stop_after)
                os.kill(self.process.pid, number)

    def finish(self, give_up):
        """Waits for the process as an agent would: until its deadline, then kills it."""
        try:
            self.process.wait(max(0.1, give_up - time.monotonic()))
            killed = False
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            killed = True
        self.thread.join()
        result = self.result or {"outcome": "OUTCOME_TIMED_OUT" if killed else "OUTCOME_FAILED",
                                 "detail": "killed at its deadline" if killed else "ended without a result"}
        result["rank"] = self.rank
        result["seconds"] = round((self.answered if self.result else time.monotonic()) - self.started, 3)
        result["phases"] = self.phases
        result["exit_code"] = self.process.returncode
        result["stderr"] = self.process.stderr.read().decode(errors="replace")[-2000:]
        return result


def gpu_count():
    tool = shutil.which("nvidia-smi")
    if not tool:
        return 0
    return subprocess.run([tool, "-L"], capture_output=True, text=True, check=False).stdout.count("GPU ")


def gpu_memory():
    """MiB in use per GPU, and processes on them; None where nvidia-smi is absent."""
    tool = shutil.which("nvidia-smi")
    if not tool:
        return None
    def ask(what):
        out = subprocess.run([tool, what, "--format=csv,noheader,nounits"], capture_output=True, text=True,
                             check=False).stdout
        return [line.strip() for line in out.splitlines() if line.strip()]
    return {"used_mib": ask("--query-gpu=memory.used"), "processes": ask("--query-compute-apps=pid,used_memory")}


def run_once(options, schema):
    first = Participant(options, schema, 0, b"")
    give_up = first.started + options.deadline + 1
    first.rendezvous.wait(options.deadline)
    participants = [first]
    if first.offer:
        participants += [Participant(options, schema, rank, first.offer) for rank in range(1, options.participants)]
    results = [p.finish(give_up) for p in participants]
    struck = options.stop_rank if options.stop_rank is not None else options.kill_rank
    return {"as_expected": all(expected(r, struck) for r in results) and len(results) == options.participants,
            "results": results, "gpu_after": gpu_memory()}


def expected(result, struck):
    if struck is None:
        return result["outcome"] == "OUTCOME_OK"
    return result["rank"] == struck or result.get("missing_ranks") == [struck]


def size(text):
    match = re.fullmatch(r"(\d+)([KMG]?)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text}: write it as 8, 64K, 1M or 4G")
    return int(match[1]) * UNITS[match[2]]


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/dev/bin", help="folder of weft-probe-nccl")
    parser.add_argument("--participants", type=int, default=2)
    parser.add_argument("--gpu-copy", action="store_true",
                        help="weft-probe-gpu-copy instead: --sizes (the first) bytes per copy, --iterations")
    parser.add_argument("--gpus-each", type=int, default=0, help="0: all that are visible")
    parser.add_argument("--gpus", type=int, default=0, help="GPUs of the machine; 0: ask nvidia-smi")
    parser.add_argument("--same-host", action="store_true", help="no NCCL_HOSTID of their own")
    parser.add_argument("--collective", default="all_gather")
    parser.add_argument("--sizes", default="16M", type=lambda t: [size(s) for s in t.split(",")])
    parser.add_argument("--data-type", default="float32")
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--warm-up", type=int, default=5)
    parser.add_argument("--timing", default="events")
    parser.add_argument("--placement", default="out_of_place")
    parser.add_argument("--skip-data-check", action="store_true")
    parser.add_argument("--rail-split", action="store_true")
    parser.add_argument("--require-network", default="")
    parser.add_argument("--init-deadline", type=float, default=30)
    parser.add_argument("--size-deadline", type=float, default=30)
    parser.add_argument("--deadline", type=float, default=120, help="seconds for each run")
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="for every probe")
    parser.add_argument("--stop-rank", type=int)
    parser.add_argument("--kill-rank", type=int)
    parser.add_argument("--stop-in", default="timed", metavar="PHASE")
    parser.add_argument("--stop-after", type=float, default=0.05, help="seconds into the phase")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--brief", action="store_true", help="no logs and settings")
    options = parser.parse_args()
    options.bin = options.bin.resolve()
    if options.gpu_copy:
        options.participants = 1
    return options


def shorten(run):
    for result in run["results"]:
        result.get("nccl", {}).pop("log", None)
        result.get("nccl", {}).pop("settings", None)
    return run


def main():
    options = parse()
    schema = Schema(ROOT / "proto/weft/v1")
    good = True
    for _ in range(options.repeat):
        run = run_once(options, schema)
        good = good and run["as_expected"]
        print(json.dumps(shorten(run) if options.brief else run), flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
