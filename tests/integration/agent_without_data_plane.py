"""The agent as a process, on a fake engine: python -m tests.integration.agent_without_data_plane ARGUMENT...

The arguments are those of `aca run`. FAKE_ENGINE=hung makes an engine that neither answers nor closes.
"""

from __future__ import annotations

import os
import sys
import threading
from functools import partial
from unittest import mock

from aca import agent
from aca.cli import main
from aca.config import Settings
from tests.integration.fake_engine import FakeEngine


class HungEngine(FakeEngine):
    def close(self, timeout: float) -> None:
        threading.Event().wait()


def build_engine(_settings: Settings) -> FakeEngine:
    return HungEngine(hold=True) if os.environ.get("FAKE_ENGINE") == "hung" else FakeEngine()


if __name__ == "__main__":
    with mock.patch.object(agent, "run_agent", partial(agent.run_agent, make_engine=build_engine)):
        main(["run", *sys.argv[1:]])
