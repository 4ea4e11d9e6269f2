"""Machines on one machine: network namespaces on a bridge, whose links a test may cut or make slow. Needs root."""

import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


def missing_network() -> str:
    """Return why this machine cannot make network namespaces, and an empty text if it can."""
    if shutil.which("ip") is None:
        return "iproute2 is not installed, or this is no Linux"
    if os.geteuid() != 0:
        return "network namespaces need root"
    name = f"ha{secrets.token_hex(3)}"
    if not _succeeds("ip", "netns", "add", name):
        return "this machine makes no network namespaces"
    _run("ip", "netns", "del", name)
    return ""


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"


def _succeeds(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, timeout=30, check=False).returncode == 0


@dataclass(frozen=True, slots=True)
class Node:
    """A machine: its name, its address, and the start of commands that run on it."""

    name: str
    address: str
    within: tuple[str, ...]


class Network:
    """A bridge in a namespace of its own, the nodes on it, and this process as one more machine on it.

    The bridge has its own namespace because the firewall of the real machine may drop what a bridge forwards.
    """

    def __init__(self) -> None:
        self._name = f"ha{secrets.token_hex(3)}"
        self._switch = f"{self._name}-switch"
        self._subnet = f"10.{64 + secrets.randbelow(64)}.{secrets.randbelow(256)}"
        self._namespaces = [self._switch]
        _run("ip", "netns", "add", self._switch)
        try:
            _run("ip", "-n", self._switch, "link", "add", "bridge", "type", "bridge")
            _run("ip", "-n", self._switch, "link", "set", "bridge", "up")
            _run("ip", "link", "add", self._name, "type", "veth", "peer", "name", "tests", "netns", self._switch)
            _run("ip", "-n", self._switch, "link", "set", "tests", "master", "bridge", "up")
            _run("ip", "address", "add", f"{self._subnet}.1/24", "dev", self._name)
            _run("ip", "link", "set", self._name, "up")
        except BaseException:
            self.remove()
            raise

    def add(self, name: str) -> Node:
        namespace = f"{self._name}-{name}"
        address = f"{self._subnet}.{1 + len(self._namespaces)}"
        _run("ip", "netns", "add", namespace)
        self._namespaces.append(namespace)
        _run("ip", "-n", self._switch, "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", namespace)
        _run("ip", "-n", self._switch, "link", "set", name, "master", "bridge", "up")
        _run("ip", "-n", namespace, "address", "add", f"{address}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            _run("ip", "-n", namespace, "link", "set", device, "up")
        return Node(name, address, ("ip", "netns", "exec", namespace))

    @contextmanager
    def cut(self, node: Node) -> Iterator[None]:
        """Take the cable of a node out at the bridge: no side is told, and connections stay open."""
        _run("ip", "-n", self._switch, "link", "set", node.name, "down")
        try:
            yield
        finally:
            _run("ip", "-n", self._switch, "link", "set", node.name, "up")

    @contextmanager
    def disturbed(self, nodes: list[Node], *disturbance: str) -> Iterator[bool]:
        """Delay or lose packets of the nodes as `tc netem` says. Yield False if the kernel has no netem."""
        add = ("tc", "qdisc", "add", "dev", "eth0", "root", "netem", *disturbance)
        done = [node for node in nodes if _succeeds(*node.within, *add)]
        try:
            yield len(done) == len(nodes)
        finally:
            for node in done:
                _run(*node.within, "tc", "qdisc", "del", "dev", "eth0", "root")

    def remove(self) -> None:
        """Remove all namespaces with their links. Processes in them must have ended."""
        for namespace in self._namespaces:
            _succeeds("ip", "netns", "del", namespace)
        _succeeds("ip", "link", "del", self._name)
