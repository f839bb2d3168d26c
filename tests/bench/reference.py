"""The reference: ovs-ofctl loading the very flows that the agent has installed, into an empty bridge of its own."""

import re
import time
from pathlib import Path

from tests.bench.figures import BenchError
from tests.bench.stage import expect_flows, flow_count, lay_ports
from tests.lab import Host

LOAD_TIMEOUT = 240.0
METER = re.compile(r"^meter=(\d+) (.*?)bands=\s*$")
BAND = re.compile(r"^type=(\w+) (.*)$")


def dump(host: Host, file: Path) -> int:
    """Write the flows of the host's bridge, cookies included, as `ovs-ofctl add-flows` reads them; how many."""
    text = host.ofctl("--no-stats", "--no-names", "dump-flows", host.bridge, timeout=LOAD_TIMEOUT)
    lines = [line.strip() for line in text.splitlines() if "actions=" in line]
    if len(lines) != flow_count(host):
        raise BenchError(f"{len(lines)} flows dumped of {flow_count(host)}")
    file.write_text("\n".join(lines) + "\n")
    return len(lines)


def meters(host: Host) -> list[str]:
    """The host's meters as `ovs-ofctl add-meter` reads them."""
    found: list[str] = []
    for line in host.ofctl("dump-meters", host.bridge).splitlines():
        if meter := METER.match(line.strip()):
            flags = ",".join(meter[2].split())
            found.append(f"meter={meter[1]},{flags},bands=")
        elif (band := BAND.match(line.strip())) and found:
            settings = ",".join(band[2].split())
            found[-1] += f"type={band[1]},{settings}"
    return found


def prepare(host: Host, like: list[str], ports: int) -> None:
    """Make the host's bridge as the agent makes it: tunnel ports, meters, and so many guest ports; no flow."""
    address = host.underlay_ip
    host.vsctl(
        *("add-br", host.bridge, "--", "set", "bridge", host.bridge, "datapath_type=netdev", "fail_mode=secure"),
        "protocols=OpenFlow10,OpenFlow13,OpenFlow14,OpenFlow15",
        *(part for kind in ("vxlan", "geneve") for part in _tunnel(host.bridge, kind, address)),
    )
    lay_ports(host, range(ports))
    for meter in like:
        host.ofctl("add-meter", host.bridge, meter)
    expect_flows(host, 0)


def _tunnel(bridge: str, kind: str, address: str) -> list[str]:
    return [
        *("--", "add-port", bridge, f"{kind}0", "--", "set", "interface", f"{kind}0", f"type={kind}"),
        *("options:remote_ip=flow", "options:key=flow", f"options:local_ip={address}"),
    ]


def load(host: Host, file: Path, count: int) -> float:
    """Seconds that `ovs-ofctl -O OpenFlow14 --bundle add-flows` needs for the file; checks that all flows are there."""
    started = time.perf_counter()
    host.ofctl("--bundle", "add-flows", host.bridge, str(file), timeout=LOAD_TIMEOUT)
    elapsed = time.perf_counter() - started
    expect_flows(host, count)
    return elapsed


def add_again(host: Host, file: Path) -> float:
    """Seconds that the same takes on a bridge that has flows already."""
    started = time.perf_counter()
    host.ofctl("--bundle", "add-flows", host.bridge, str(file), timeout=LOAD_TIMEOUT)
    return time.perf_counter() - started
