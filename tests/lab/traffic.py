"""TCP between two namespaces, driven from this process."""

import socket
import threading
import time

from tests.lab.commands import PATIENCE, LabError
from tests.lab.guest import Guest
from tests.lab.netns import Namespace

PIECE = 1 << 16


def transfer(
    sender: Guest | Namespace,
    receiver: Guest | Namespace,
    to_ip: str,
    *,
    size: int,
    port: int = 5001,
    within: float = 10.0,
) -> float:
    """Send `size` bytes over one TCP connection to `to_ip` of the receiver's, wait for its echo of the count, and
    return the seconds that took. Raises LabError if it does not come about within so many seconds.
    """
    within *= PATIENCE
    family = socket.AF_INET6 if ":" in to_ip else socket.AF_INET
    source = _socket(sender, family)
    listener = _socket(receiver, family)
    with source, listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((to_ip, port))
        listener.listen(1)
        listener.settimeout(within)
        source.settimeout(within)
        server = threading.Thread(target=_count, args=(listener, within), name="lab-tcp", daemon=True)
        server.start()
        started = time.monotonic()
        try:
            source.connect((to_ip, port))
            source.sendall(bytes(size))
            source.shutdown(socket.SHUT_WR)
            counted = source.recv(64)
        except OSError as error:
            raise LabError(f"TCP to {to_ip} port {port}: {error}") from error
        finally:
            elapsed = time.monotonic() - started
            # Wakes a server that still waits for a connection.
            listener.shutdown(socket.SHUT_RDWR)
            server.join(within)
    if counted != str(size).encode():
        raise LabError(f"TCP to {to_ip} port {port}: {counted!r} of {size} bytes arrived")
    return elapsed


def _socket(where: Guest | Namespace, family: int) -> socket.socket:
    namespace = where.namespace if isinstance(where, Guest) else where
    return namespace.socket(family, socket.SOCK_STREAM)


def _count(listener: socket.socket, within: float) -> None:
    try:
        connection, _ = listener.accept()
    except OSError:
        return
    with connection:
        connection.settimeout(within)
        received = 0
        try:
            while piece := connection.recv(PIECE):
                received += len(piece)
            connection.sendall(str(received).encode())
        except OSError:
            return
