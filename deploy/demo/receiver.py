"""A webhook receiver that trusts nothing: it checks Standard Webhooks signatures by its own code."""

import base64
import binascii
import hashlib
import hmac
import http.server
import json
import secrets
import threading
import time

TOLERANCE_SECONDS = 300


def new_secret():
    return "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode("ascii")


def signature_valid(secret, headers, body, now):
    """Whether `headers` carry a fresh v1 signature of `body` (bytes) by `secret` ("whsec_…")."""
    identity, stamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not identity or "." in identity or not stamp.isdigit() or abs(now - int(stamp)) > TOLERANCE_SECONDS:
        return False
    key = base64.b64decode(secret.removeprefix("whsec_"))
    expected = hmac.new(key, f"{identity}.{stamp}.".encode() + body, hashlib.sha256).digest()
    return any(_matches(part, expected) for part in headers.get("webhook-signature", "").split(" "))


def _matches(part, expected):
    version, _, encoded = part.partition(",")
    try:
        return version == "v1" and hmac.compare_digest(base64.b64decode(encoded, validate=True), expected)
    except binascii.Error:
        return False


class Receiver:
    """Listens on `address`, any port; records each distinct notification. Thread-safe."""

    def __init__(self, address, secret):
        self._secret = secret
        self._lock = threading.Lock()
        self._received = []
        self._repeats = 0
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):  # noqa: N802 (the name is http.server's)
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                receiver._record(self.headers, body)
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer((address, 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self):
        host, port = self._server.server_address[:2]
        return f"http://{host}:{port}/hook"

    def _record(self, headers, body):
        now = time.time()
        entry = {"id": headers.get("webhook-id", ""), "received_at": now, "body": _json_or_none(body)}
        entry["signature_valid"] = signature_valid(self._secret, headers, body, now)
        with self._lock:
            if any(entry["id"] == other["id"] for other in self._received):
                self._repeats += 1  # at least once is the promise; a repeat is not a second notification
            else:
                self._received.append(entry)

    def received(self):
        with self._lock:
            return list(self._received)

    def close(self):
        self._server.shutdown()
        self._server.server_close()


def _json_or_none(body):
    try:
        return json.loads(body)
    except ValueError:
        return None
