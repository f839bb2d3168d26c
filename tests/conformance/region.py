"""Hosts that many scenarios share, one after the other; each must leave them as they were when they were new."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.conformance.backends import Backend
from tests.conformance.cloud import SETTLE, Cloud, Site, together
from tests.lab import Lab, wait_until

START_TIMEOUT = 60.0


class Region:
    """Two hosts with a ready agent each, made when first asked for. A scenario that cannot be cleared away ends them,
    and the next one gets new ones."""

    def __init__(
        self, new_lab: Callable[[], Lab], backends: Sequence[Backend], settings: Mapping[str, Any] | None = None
    ) -> None:
        """`settings` are laid over the agents' usual ones; a module that needs some has a `region` of its own."""
        self._new_lab = new_lab
        self._backends = tuple(backends)
        self._settings = dict(settings or {})
        self._lab: Lab | None = None
        self._sites: tuple[Site, Site] | None = None
        self._untouched: list[object] = []

    @property
    def lab(self) -> Lab:
        """The lab that the hosts are in; call sites() first."""
        assert self._lab is not None
        return self._lab

    def sites(self) -> tuple[Site, Site]:
        """Raises LabError if an agent does not get ready."""
        if self._sites is None:
            self.close()
            self._lab = self._new_lab().__enter__()
            hosts = [self._lab.host(f"h{n}", dataplane=backend.name) for n, backend in enumerate(self._backends, 1)]
            agents = [host.agent(self._settings) for host in hosts]
            for agent in agents:
                agent.wait_ready(START_TIMEOUT)
            one, two = map(Site, hosts, agents, self._backends)
            self._untouched = [one.footprint(), two.footprint()]
            self._sites = one, two
        return self._sites

    def clear(self, cloud: Cloud) -> None:
        """Delete what the agents were told and the guests, and compare with the beginning. Raises AssertionError."""
        try:
            for site in cloud.sites:
                assert site.agent.running, f"{site.agent!r} did not survive\n{site.agent.log_tail()}"
            replies = [site.forget_all() for site in cloud.sites]
            cloud.close()
            for reply in replies:
                # What was refused when it came may be refused when it is to go: there was nothing of it.
                assert [one for one in reply.troubles if one[2] != "INVALID_ARG"] == []
            together(*(lambda s=s, f=f: _check(s, f) for s, f in zip(cloud.sites, self._untouched, strict=True)))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the hosts; may be called twice."""
        if self._lab is not None:
            self._lab.close()
        self._lab, self._sites, self._untouched = None, None, []


def _check(site: Site, untouched: object) -> None:
    try:
        wait_until(lambda: site.footprint() == untouched, SETTLE, "as when it was new")
    except Exception:
        found = site.footprint()
        assert found == untouched, f"{site!r} is not as it was when it was new: {_difference(untouched, found)}"
    resources = site.agent.status()["resources"]
    left = {kind: count["desired"] for kind, count in resources.items() if count["desired"]}
    assert not left, f"{site!r} still remembers {left}"


def _difference(before: Any, after: Any) -> str:
    """What has come and gone, part by part."""
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        return f"{before} has become {after}"
    texts = []
    for part in before.keys() | after.keys():
        old, new = (json.dumps(one.get(part), default=str, indent=0).splitlines() for one in (before, after))
        texts += [f"{part} gone: {line}" for line in old if line not in new]
        texts += [f"{part} more: {line}" for line in new if line not in old]
    return "; ".join(texts)
