"""Runs benches by name: see run.sh."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import grpc

from tests.bench import (
    decode_merge,
    kafka_small,
    made_ports,
    mizar_calls,
    neighbors,
    netlink_neighbors,
    netlink_ports,
    on_demand,
    port_latency,
    restart,
    traffic_stall,
)
from tests.bench.figures import BenchError, Report
from tests.bench.stage import is_long
from tests.lab import LabError, missing_requirements

FILE = "bench.jsonl"


@dataclass(frozen=True, slots=True)
class Bench:
    """`long`: only when named or with ACA_LONG=1."""

    run: Callable[[Report], None]
    about: str
    long: bool = False


BENCHES = {
    "decode_merge_100k": Bench(decode_merge.run, "parse, validate and merge 100,000 neighbours, no data plane"),
    "kafka_small": Bench(kafka_small.run, "200,000 records of one neighbour by Kafka, no data plane"),
    "neighbours_100k": Bench(neighbors.run_100k, "100,000 L2 neighbours in one goal state, one port"),
    "neighbours_100k_300_ports": Bench(neighbors.run_300_ports, "the same with 300 ports on the bridge"),
    "port_latency": Bench(port_latency.run, "one port whose device is there, with 10 and 500 ports present"),
    "netlink_made_port": Bench(made_ports.run, "one port that the agent makes with a namespace, on plain Linux"),
    "netlink_ports_200": Bench(made_ports.run_together, "200 ports in one message on a fresh host, on plain Linux"),
    "restart_100k": Bench(restart.run, "a fresh agent where 100,000 neighbours stand, and what a check costs"),
    "netlink_restart_100k": Bench(restart.run_netlink, "the same on a host without Open vSwitch"),
    "traffic_stall": Bench(traffic_stall.run, "gaps in traffic between guests while 100,000 neighbours load"),
    "netlink_neighbours_10k": Bench(netlink_neighbors.run_10k, "10,000 L2 neighbours on a host without Open vSwitch"),
    "netlink_neighbours_100k": Bench(netlink_neighbors.run_100k, "100,000 of them"),
    "netlink_port_latency": Bench(netlink_ports.run_latency, "one port there, with 10 and 500 present"),
    "netlink_change_cost": Bench(netlink_ports.run_cost, "a change there with 10 and with 5,000 ports present"),
    "netlink_traffic_stall": Bench(traffic_stall.run_netlink, "the same gaps there"),
    "mizar_update_ep": Bench(mizar_calls.run, "endpoint calls to a transit daemon that does nothing but answer"),
    "on_demand_200": Bench(on_demand.run, "200 guests send first packets to unknown destinations at once"),
    "neighbours_1m": Bench(neighbors.run_1m, "a million neighbours in ten messages", long=True),
}


def main(arguments: list[str]) -> int:
    """Exit status: 0 all measured, 1 a bench failed, 2 wrong usage or cannot run here."""
    if arguments == ["--list"]:
        for name, bench in BENCHES.items():
            print(f"{name:28} {bench.about}{' (long)' if bench.long else ''}")
        return 0
    if {"-h", "--help"} & set(arguments):
        print("sudo tests/bench/run.sh [NAME...]: all benches but the long ones (with ACA_LONG=1 these too), or those")
        print("named; --list names them. Prints a table and writes one JSON line per figure to ./" + FILE)
        return 0
    unknown = [name for name in arguments if name not in BENCHES]
    if unknown:
        print(f"no bench {', '.join(unknown)}; there are: {', '.join(BENCHES)}", file=sys.stderr)
        return 2
    if missing := missing_requirements():
        print(f"cannot measure here: {'; '.join(missing)}", file=sys.stderr)
        return 2
    chosen = arguments or [name for name, bench in BENCHES.items() if is_long() or not bench.long]
    report = Report(Path.cwd() / FILE)
    failed = 0
    for position, name in enumerate(chosen, 1):
        report.progress(f"{name} ({position} of {len(chosen)}): {BENCHES[name].about}")
        try:
            BENCHES[name].run(report)
        except (BenchError, LabError, grpc.RpcError) as error:
            failed += 1
            report.progress(f"{name} FAILED: {error}")
    report.show()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
