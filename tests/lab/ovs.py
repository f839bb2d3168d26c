"""One private Open vSwitch: its database server and its switch in user space."""

import json
import socket
from collections.abc import Callable
from pathlib import Path

from tests.lab.commands import COMMAND_TIMEOUT, LabError, run
from tests.lab.netns import Namespace
from tests.lab.processes import Daemon

SCHEMA = Path("/usr/share/openvswitch/vswitch.ovsschema")
OPENFLOW = "OpenFlow14"
# As distributions start it: what `ovs-vsctl set-manager` and `set-ssl` say counts.
FROM_THE_DATABASE = (
    "--remote=db:Open_vSwitch,Open_vSwitch,manager_options",
    "--private-key=db:Open_vSwitch,SSL,private_key",
    "--certificate=db:Open_vSwitch,SSL,certificate",
    "--ca-cert=db:Open_vSwitch,SSL,ca_cert",
)


class Ovs:
    """An instance whose sockets, pid files, logs and database are all in `directory`."""

    def __init__(self, directory: Path, namespace: Namespace, after_switch_start: Callable[[], None]) -> None:
        self.directory = directory
        self.db_socket = f"unix:{directory}/db.sock"
        self.env = dict.fromkeys(("OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"), str(directory))
        self.ovsdb = self._daemon(
            namespace,
            "ovsdb-server",
            [f"{directory}/conf.db", f"--remote=p{self.db_socket}", *FROM_THE_DATABASE],
            lambda: None,
        )
        self.vswitchd = self._daemon(namespace, "ovs-vswitchd", [self.db_socket], after_switch_start)

    def create(self) -> None:
        """Make the database and start both daemons. Raises CommandError."""
        self._create_database()
        self.vswitchd.start()

    def wipe(self) -> None:
        """Lose the database: an empty one takes its place while the switch runs. Raises CommandError."""
        self.ovsdb.kill()
        Path(self.directory, "conf.db").unlink()
        self._create_database()

    def _create_database(self) -> None:
        run(["ovsdb-tool", "create", f"{self.directory}/conf.db", str(SCHEMA)], env=self.env)
        self.ovsdb.start()
        self.vsctl("--no-wait", "init")

    def vsctl(self, *args: str) -> str:
        """Run ovs-vsctl; it waits for the switch unless the switch does not run. Raises CommandError."""
        options = [f"--db={self.db_socket}", f"--timeout={COMMAND_TIMEOUT:.0f}"]
        if not self.vswitchd.running:
            options.append("--no-wait")
        return run(["ovs-vsctl", *options, *args], env=self.env, timeout=COMMAND_TIMEOUT + 5)

    def ofctl(self, *args: str, stdin: str = "", timeout: float = COMMAND_TIMEOUT) -> str:
        """Run ovs-ofctl with OpenFlow 1.4; bridges by name. Raises CommandError."""
        return run(["ovs-ofctl", "-O", OPENFLOW, *args], env=self.env, stdin=stdin, timeout=timeout)

    def appctl(self, method: str, *args: str, timeout: float = COMMAND_TIMEOUT) -> str:
        """Call a unixctl method of ovs-vswitchd (as `ovs-appctl` does, ovs-appctl(8)). Raises LabError, OSError.

        Spoken directly, JSON-RPC 1.0 over the control socket: starting a program costs 50 times as much.
        """
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as control:
            control.settimeout(timeout)
            control.connect(f"{self.directory}/ovs-vswitchd.ctl")
            control.sendall(json.dumps({"id": 0, "method": method, "params": args}).encode())
            received = b""
            while True:
                piece = control.recv(65536)
                if not piece:
                    raise LabError(f"ovs-vswitchd hung up on {method}")
                received += piece
                try:
                    reply = json.loads(received)
                except ValueError:
                    continue
                if reply["error"] is not None:
                    raise LabError(f"ovs-appctl {method}: {reply['error']}")
                return str(reply["result"] or "")

    def _daemon(self, namespace: Namespace, name: str, args: list[str], after_start: Callable[[], None]) -> Daemon:
        options = [
            f"--pidfile={self.directory}/{name}.pid",
            f"--log-file={self.directory}/{name}.log",
            f"--unixctl={self.directory}/{name}.ctl",
            "-vconsole:off",
            "--detach",
            "--no-chdir",
        ]
        return Daemon(name, namespace.argv(name, *args, *options), self.directory, self.env, after_start)
