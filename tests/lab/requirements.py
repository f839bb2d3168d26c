"""What the lab needs of the machine."""

import os
import shutil
from collections.abc import Collection
from pathlib import Path

from tests.lab.ovs import SCHEMA

PROGRAMS = ("ip", "bridge", "ping", "nsenter", "setpriv", "nft")
OVS_PROGRAMS = ("ovs-vsctl", "ovs-ofctl", "ovsdb-tool", "ovsdb-server", "ovs-vswitchd")


def missing_requirements(dataplanes: Collection[str] = ("ovs", "netlink")) -> list[str]:
    """What is missing here for hosts with these data planes, each in words for people; empty when a lab can run."""
    programs = (*PROGRAMS, *OVS_PROGRAMS) if "ovs" in dataplanes else PROGRAMS
    missing = [f"{program} is not installed" for program in programs if shutil.which(program) is None]
    if os.geteuid() != 0:
        missing.append("not root")
    if not Path("/dev/net/tun").exists():
        missing.append("no /dev/net/tun")
    if "ovs" in dataplanes and not SCHEMA.exists():
        missing.append(f"no Open vSwitch schema {SCHEMA}")
    return missing
