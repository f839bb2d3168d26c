"""The demonstration: two hosts on this machine become a small cloud network and are asked whether it is one.

deploy/demo.sh runs it. What the network is to be stands in goalstates/ only; the picture and the expectations are
read from there.
"""
