# The agent as an image, to be run privileged and in the host's network namespace. It drives the host's Open vSwitch:
# mount the run directory of that (/run/openvswitch). Or, with dataplane.kind = "netlink", the host's kernel: mount
# /run/netns with propagation rshared.
ARG BASE=debian:12-slim

FROM ${BASE} AS build
RUN apt-get update \
    && apt-get install -y --no-install-recommends python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
RUN python3 -m venv /opt/aca
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_NO_INPUT=1 PIP_ROOT_USER_ACTION=ignore
COPY pyproject.toml README.md LICENSE ./
COPY deploy/requirements.txt deploy/
COPY aca aca
COPY dataplane dataplane
COPY goalstate_proto goalstate_proto
# As constraints the pins hold for what the agent needs, and the development packages stay out.
RUN /opt/aca/bin/pip install -c deploy/requirements.txt setuptools \
    && /opt/aca/bin/pip install -c deploy/requirements.txt --no-build-isolation . \
    && /opt/aca/bin/pip uninstall -y setuptools pip

FROM ${BASE}
RUN apt-get update \
    && apt-get install -y --no-install-recommends python3 \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/aca /opt/aca
ENV PATH=/opt/aca/bin:$PATH PYTHONUNBUFFERED=1
STOPSIGNAL SIGTERM
ENTRYPOINT ["aca"]
CMD ["run"]
