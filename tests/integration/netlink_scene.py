"""A host where everything stands, programmed by the netlink data plane alone, and what of it can be compared."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from dataplane.base import Drifted, Event
from dataplane.netlink.plane import NetlinkDataPlane
from tests.integration.netlink_host import WHOLE, apply, open_plane
from tests.lab.netns import Namespace, namespaces_of


@dataclass(frozen=True, slots=True)
class Scene:
    """A host where everything stands, and the names of what stands there."""

    host: Namespace
    plane: NetlinkDataPlane
    events: list[Event]
    bridge: str
    tunnel: str
    legs: tuple[str, ...]
    router: Namespace

    @property
    def inside(self) -> str:
        return self.legs[0].replace("acl", "acr")

    def drifts(self) -> list[Drifted]:
        return [event for event in self.events if isinstance(event, Drifted)]


SETTINGS = "cd /proc/sys/net/ipv4; grep . ip_forward conf/*/rp_filter conf/*/forwarding conf/*/arp_ignore"


def names_of(host: Namespace, prefix: str) -> tuple[str, ...]:
    devices = (line.split()[1].rstrip(":").partition("@")[0] for line in host.run("ip", "-o", "link").splitlines())
    return tuple(sorted(name for name in devices if name.startswith(prefix)))


def ruleset(host: Namespace) -> list[str]:
    """Without the numbers that the kernel gave, and the elements of sets one by one."""
    text = re.sub(r"port-\d+", "port", host.run("nft", "list", "ruleset"))
    lines = text.replace(" = {", "\n").replace(",", "\n").replace("}", "\n").splitlines()
    return sorted(line.strip() for line in lines if line.strip())


def standing(host: Namespace) -> dict[str, object]:
    links = json.loads(host.run("ip", "-d", "-j", "link"))
    fdb = host.run("bridge", "fdb").splitlines()
    return {
        "links": sorted(
            (one["ifname"], "UP" in one["flags"], one["mtu"], one.get("master", ""), one.get("ifalias", ""))
            for one in links
        ),
        "learning": host.run("bridge", "-d", "link").count("learning on"),
        "tunnels": [
            one["linkinfo"]["info_data"] for one in links if one.get("linkinfo", {}).get("info_kind") == "vxlan"
        ],
        # In which order a MAC's two entries are shown, as one or as two lines, is the kernel's choice.
        "fdb": sorted(
            {
                (line.split()[0], line.split()[2], word)
                for line in fdb
                if " dst " in line or (" master " in line and "permanent" not in line)
                for word in re.findall(r"dst \S+|master", line)
            }
        ),
        "bridges": [
            {key: one["linkinfo"]["info_data"].get(key) for key in ("mcast_snooping", "vlan_filtering", "stp_state")}
            for one in links
            if one.get("linkinfo", {}).get("info_kind") == "bridge"
        ],
        "nft": ruleset(host),
        "routers": {
            name: (
                sorted(Namespace(name).run("ip", "route", "show", "table", "all").splitlines()),
                sorted(Namespace(name).run("ip", "rule").splitlines()),
                sorted(re.findall(r"inet \S+", Namespace(name).run("ip", "-o", "addr"))),
                sorted(Namespace(name).run("sh", "-c", SETTINGS).splitlines()),
            )
            for name in namespaces_of(host.name)
        },
    }


@contextmanager
def whole_scene(host: Namespace) -> Iterator[Scene]:
    plane, events = open_plane(host)
    assert apply(host, plane, WHOLE).problems == {}
    (bridge,), (tunnel,) = names_of(host, "acb"), names_of(host, "acv")
    (router,) = namespaces_of(host.name)
    yield Scene(host, plane, events, bridge, tunnel, names_of(host, "acl"), Namespace(router))
    plane.close()
