"""A network of a test's own: a Linux network namespace, and a relay into it.

Inside, every port is free and nothing is exposed, `lo` is up and every address of POD_NETWORK is
this machine's: what listens on all addresses answers for every fake pod. From outside, chosen
ports are reached through a relay that listens on this machine's loopback.

    python network.py FD      becomes the holder: takes (listener, port) pairs from socket FD

The holder makes the namespace, so that it lives as long as something runs in it and ends with the
test. Needs root or unprivileged user namespaces.
"""

from __future__ import annotations

import asyncio
import ctypes
import fcntl
import os
import socket
import struct
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
SIOCSIFADDR, SIOCSIFNETMASK, SIOCGIFFLAGS, SIOCSIFFLAGS = 0x8916, 0x891C, 0x8913, 0x8914
IFF_UP = 1
POD_NETWORK = "10.244.0.1/16"
READY = b"ready"


class Network:
    """A network namespace, held by a process that `start` starts."""

    def __init__(self, start: Callable[..., int]) -> None:
        """`start(command, keep_files)` starts a program and returns its pid."""
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, "-S", __file__, str(theirs.fileno())]
            self.pid = start(command, [theirs.fileno()])
        self._control.settimeout(20)
        said = self._control.recv(1024)
        if said != READY:
            self._control.close()
            raise OSError(f"no network namespace: {said.decode(errors='replace') or 'ended'}")

    def reach(self, port: int, listener: socket.socket) -> None:
        """Connections to `listener`, a socket of outside, end at 127.0.0.1:`port` inside."""
        socket.send_fds(self._control, [struct.pack("!H", port)], [listener.fileno()])
        assert self._control.recv(1024) == READY
        listener.close()

    def close(self) -> None:
        self._control.close()

    def join(self) -> Callable[[], None]:
        """What a new process calls before it runs its program, to be inside."""
        libc = ctypes.CDLL(None, use_errno=True)
        own_user = os.readlink("/proc/self/ns/user")
        kinds = [("net", CLONE_NEWNET)]
        if os.readlink(f"/proc/{self.pid}/ns/user") != own_user:
            kinds.insert(0, ("user", CLONE_NEWUSER))
        paths = [(f"/proc/{self.pid}/ns/{kind}", flag) for kind, flag in kinds]

        def enter() -> None:
            files = [(os.open(path, os.O_RDONLY), flag) for path, flag in paths]
            for file, flag in files:
                if libc.setns(file, flag):
                    raise OSError(ctypes.get_errno(), "setns")
                os.close(file)

        return enter


def possible() -> bool:
    """Whether this machine lets us make a namespace."""
    if sys.platform != "linux":
        return False
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            _unshare()
            os._exit(0)
        os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def _unshare() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    flags = CLONE_NEWNET if user == 0 else CLONE_NEWNET | CLONE_NEWUSER
    if libc.unshare(flags):
        raise OSError(ctypes.get_errno(), "unshare")
    if user:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")


def _set_up_loopback() -> None:
    address, _, bits = POD_NETWORK.partition("/")
    mask = socket.inet_ntoa(struct.pack("!I", (0xFFFFFFFF << (32 - int(bits))) & 0xFFFFFFFF))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        flags = struct.pack("16sh14x", b"lo", 0)
        (now,) = struct.unpack("16xh14x", fcntl.ioctl(sock, SIOCGIFFLAGS, flags))
        fcntl.ioctl(sock, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", now | IFF_UP))
        # On loopback, all addresses of an address's network are the machine's own.
        for request, value in ((SIOCSIFADDR, address), (SIOCSIFNETMASK, mask)):
            family = struct.pack("<HH4s8x", socket.AF_INET, 0, socket.inet_aton(value))
            fcntl.ioctl(sock, request, struct.pack("16s16s", b"lo:0", family))


async def _relay(control: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ended = loop.create_future()
    servers: list[asyncio.Server] = []
    orders: asyncio.Queue[tuple[socket.socket, int]] = asyncio.Queue()

    def order() -> None:
        data, files, _, _ = socket.recv_fds(control, 16, 1)
        if not data:
            loop.remove_reader(control)
            ended.set_result(None)
            return
        orders.put_nowait((socket.socket(fileno=files[0]), struct.unpack("!H", data)[0]))

    async def serve() -> None:
        while True:
            listener, port = await orders.get()
            servers.append(await asyncio.start_server(_forward_to(port), sock=listener))
            control.send(READY)

    loop.add_reader(control, order)
    serving = asyncio.create_task(serve())
    await ended
    serving.cancel()


def _forward_to(port: int) -> Callable[..., Coroutine[None, None, None]]:
    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_pump(reader, inner_writer), _pump(inner_reader, writer))

    return forward


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await source.read(1 << 16):
            sink.write(data)
            await sink.drain()
    sink.close()


def main(file: int) -> None:
    control = socket.socket(fileno=file)
    try:
        _unshare()
        _set_up_loopback()
    except OSError as error:
        control.send(str(error).encode())
        raise SystemExit(1) from error
    control.send(READY)
    asyncio.run(_relay(control))


if __name__ == "__main__":
    main(int(sys.argv[1]))
