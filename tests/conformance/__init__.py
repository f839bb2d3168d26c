"""Scenarios that every data plane must pass, alone and in pairs of hosts with different ones."""
