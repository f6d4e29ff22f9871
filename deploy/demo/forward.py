"""Makes the page reachable from the host: a socket opened on the host is served from inside the namespaces.

A socket belongs to the network namespace in which it was made, whoever holds it.
"""

import contextlib
import socket
import threading

PAGE_PORT, GRPC_PORT = 7480, 7443


def listen_on_host(preferred_port):
    """A socket on 127.0.0.1, on the preferred port or, where that is taken, on any."""
    for port in (preferred_port, 0):
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
            listener.listen(64)
            return listener
        except OSError:
            listener.close()
    raise RuntimeError("no free port on 127.0.0.1")


def _pump(source, sink):
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)


def _serve(client, target):
    with client, contextlib.suppress(OSError), socket.create_connection(target, timeout=10) as server:
        server.settimeout(None)
        back = threading.Thread(target=_pump, args=(server, client), daemon=True)
        back.start()
        _pump(client, server)
        back.join()


def start(listener, target):
    """Carries connections of `listener` to `target` (host, port) until the process ends."""

    def accept():
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                threading.Thread(target=_serve, args=(client, target), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
