"""Two network namespaces with a link of a given bandwidth and delay between them. The link is a process that reads packets from a TUN device
of each namespace and writes them, later, to the other's:

    namespace 0  mptune0 10.231.0.1  <->  LinkRelay  <->  10.231.0.2 mptune1  namespace 1
"""
import collections
import ctypes
import fcntl
import multiprocessing
import os
import select
import signal
import struct
import subprocess
import time

ADDRESSES = ("10.231.0.1", "10.231.0.2")
INTERFACES = ("mptune0", "mptune1")
MTU = 65000
CLONE_NEWNET = 0x40000000
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
PR_SET_TIMERSLACK = 29

LIBC = ctypes.CDLL(None, use_errno=True)


def call(function, *arguments):
    if function(*arguments) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


class Unavailable(Exception):
    """This system allows no namespaces or TUN devices; the text says which."""


def make_namespace(side):
    """Moves this thread into a new namespace. Returns a descriptor of it and its TUN device."""
    call(LIBC.unshare, CLONE_NEWNET)
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22s", INTERFACES[side].encode(), IFF_TUN | IFF_NO_PI, b""))
    for words in (f"address add {ADDRESSES[side]} peer {ADDRESSES[1 - side]} dev {INTERFACES[side]}",
                  f"link set {INTERFACES[side]} mtu {MTU} txqueuelen 5000 up", "link set lo up"):
        subprocess.run(["ip", *words.split()], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    return os.open("/proc/self/ns/net", os.O_RDONLY), device


class Direction:
    """Packets on their way: one after the other at the link's bandwidth, and each so much later."""

    def __init__(self, source, destination, bytes_per_second, delay_s):
        self.source, self.destination = source, destination
        self.bytes_per_second, self.delay_s = bytes_per_second, delay_s
        self.free_at, self.packets = 0.0, collections.deque()

    def take(self):
        while True:
            try:
                packet = os.read(self.source, MTU + 100)
            except BlockingIOError:
                return
            self.free_at = max(self.free_at, time.monotonic()) + len(packet) / self.bytes_per_second
            self.packets.append((self.free_at + self.delay_s, packet))

    def deliver(self):
        while self.packets and self.packets[0][0] <= time.monotonic():
            os.write(self.destination, self.packets.popleft()[1])

    def next_s(self):
        return self.packets[0][0] - time.monotonic() if self.packets else None


def relay(devices, bytes_per_second, delay_s):
    LIBC.prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
    directions = [Direction(*pair, bytes_per_second, delay_s) for pair in (devices, devices[::-1])]
    while True:
        waits = [wait for wait in (direction.next_s() for direction in directions) if wait is not None]
        select.select(devices, [], [], max(0, min(waits)) if waits else None)
        for direction in directions:
            direction.take()
            direction.deliver()


def serve(pipe, bytes_per_second, delay_s):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        sides = [make_namespace(side) for side in (0, 1)]
    except (OSError, subprocess.CalledProcessError) as error:
        detail = getattr(error, "stderr", None)
        return pipe.send(f"{error} {detail.decode().strip() if detail else ''}".strip())
    pipe.send([namespace for namespace, _ in sides])
    relay([device for _, device in sides], bytes_per_second, delay_s)


class SlowLink:
    """`with SlowLink(...) as link`: link.enter(side) is a preexec_fn of a process in that namespace. Raises Unavailable."""

    def __init__(self, bytes_per_second, delay_s):
        self.pipe, theirs = multiprocessing.Pipe()
        self.process = multiprocessing.get_context("fork").Process(target=serve, args=(theirs, bytes_per_second, delay_s), daemon=True)

    def __enter__(self):
        self.process.start()
        told = self.pipe.recv()
        if isinstance(told, str):
            self.process.join()
            raise Unavailable(f"no network namespaces with TUN devices: {told}")
        self.namespaces = [os.open(f"/proc/{self.process.pid}/fd/{number}", os.O_RDONLY) for number in told]
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.join()
        for namespace in self.namespaces:
            os.close(namespace)

    def enter(self, side):
        return lambda: call(LIBC.setns, self.namespaces[side], CLONE_NEWNET)
