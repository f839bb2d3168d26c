"""What the lab needs of the machine."""

import os
import shutil
from pathlib import Path

from tests.lab.ovs import SCHEMA

PROGRAMS = (
    *("ip", "bridge", "ping", "nsenter", "setpriv", "nft"),
    *("ovs-vsctl", "ovs-ofctl", "ovsdb-tool", "ovsdb-server", "ovs-vswitchd"),
)


def missing_requirements() -> list[str]:
    """What is missing here, each in words for people; empty when a lab can run."""
    missing = [f"{program} is not installed" for program in PROGRAMS if shutil.which(program) is None]
    if os.geteuid() != 0:
        missing.append("not root")
    if not Path("/dev/net/tun").exists():
        missing.append("no /dev/net/tun")
    if not SCHEMA.exists():
        missing.append(f"no Open vSwitch schema {SCHEMA}")
    return missing
