"""The agent as a process, on a fake engine: python -m tests.integration.agent_without_data_plane ARGUMENT...

The arguments are those of `aca run`. FAKE_ENGINE=hung makes an engine that neither answers nor closes.
"""

from __future__ import annotations

import os
import sys
import threading

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
    run_agent = agent.run_agent
    agent.run_agent = lambda settings: run_agent(settings, build_engine)
    main(["run", *sys.argv[1:]])
