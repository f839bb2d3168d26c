"""Benchmarks: what the agent costs beside what the same flows cost by `ovs-ofctl`, in the same run. See run.sh."""
