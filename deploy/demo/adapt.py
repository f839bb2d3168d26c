"""Goal states that ask for tunnels which some host cannot make: the same network over VXLAN, and who refuses what."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from google.protobuf import text_format

from aca.cli.goalstates import read_goal_state
from deploy.demo.intent import Network, configurations, goal_states_in, read_network
from deploy.demo.planes import Plane
from goalstate_proto.common_pb2 import NetworkType, UpdateType


@dataclass(frozen=True, slots=True)
class Plan:
    """`network` is what all hosts can make; `refused` has, per host, files that ask it for more, and for which
    subnets, by id."""

    network: Network
    refused: Mapping[str, Mapping[Path, frozenset[str]]]


def plan_for(directory: Path, planes: Mapping[str, Plane], target: Path) -> Plan:
    """The plan for the goal states in a directory; what has to be different is written to `target`, which is made.

    Both ends of a tunnel must be alike, so what one host cannot make no host gets. Raises CommandError, OSError.
    """
    everywhere = frozenset.intersection(*(plane.tunnels for plane in planes.values()))
    files = goal_states_in(directory)
    refused = {
        host: {path: subnets for path in paths if (subnets := subnets_beyond(path, planes[host].tunnels))}
        for host, paths in files.items()
    }
    adapted = {host: tuple(adapt(path, everywhere, target) for path in paths) for host, paths in files.items()}
    return Plan(read_network(adapted), {host: paths for host, paths in refused.items() if paths})


def subnets_beyond(path: Path, tunnels: frozenset[str]) -> frozenset[str]:
    """The ids of the subnets in a goal state that ask for other tunnels than these."""
    message = read_goal_state(path, None).message
    found = configurations([message], "subnet_states")
    return frozenset(one.id for one in found if NetworkType.Name(one.network_type) not in tunnels)


def adapt(path: Path, tunnels: frozenset[str], target: Path) -> Path:
    """The file itself if it asks for these tunnels only, else one in `target` that asks for VXLAN instead."""
    beyond = subnets_beyond(path, tunnels)
    if not beyond:
        return path
    message = read_goal_state(path, None).message
    for subnet in configurations([message], "subnet_states"):
        if subnet.id in beyond:
            subnet.network_type = NetworkType.VXLAN
            # VXLAN is 0, which in a delta means "as before".
            subnet.update_type = UpdateType.FULL
    target.mkdir(exist_ok=True)
    written = target / path.name
    written.write_text(f"# {path.name} over VXLAN\n\n{text_format.MessageToString(message)}")
    return written
