"""Tests against real processes and network namespaces."""
