"""Actions and instructions: bytes as the specifications give them, alignment, and what is refused."""

from __future__ import annotations

import pytest

from dataplane.ovs.openflow import actions, oxm

MAC = bytes.fromhex("020000000001")


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (actions.output(5), "0000 0010 00000005 0000 000000000000"),
        (actions.in_port_output(), "0000 0010 fffffff8 0000 000000000000"),
        (actions.group(9), "0016 0008 00000009"),
        (actions.dec_ttl(), "0018 0008 00000000"),
        (actions.set_field(oxm.eth_dst(MAC)), "0019 0010 80000606 020000000001 0000"),
        (actions.set_field(oxm.reg(1, 0xF0, 0xF0)), "ffff 0018 00002320 0021 00010308 000000f0 000000f0 0000"),
        (actions.load(oxm.REG3, 7), "ffff 0018 00002320 0007 001f 00010604 0000000000000007"),
        (actions.load(oxm.IN_PORT, 0), "ffff 0018 00002320 0007 000f 00000002 0000000000000000"),
        (actions.load(oxm.XXREG0, 1, 64, 8), "ffff 0018 00002320 0007 1007 0001de10 0000000000000001"),
        (actions.move(oxm.REG2, oxm.TUN_ID), "ffff 0018 00002320 0006 0020 0000 0000 00010404 00012008"),
        (
            actions.move(oxm.ETH_SRC, oxm.XXREG1, src_offset=8, dst_offset=16, bits=40),
            "ffff 0018 00002320 0006 0028 0008 0010 00000406 0001e010",
        ),
        (actions.resubmit(51), "ffff 0010 00002320 000e fff8 33 000000"),
        (actions.output_reg(oxm.REG4), "ffff 0018 00002320 000f 001f 00010804 0000 000000000000"),
        (actions.controller(), "0000 0010 fffffffd ffff 000000000000"),
        (actions.controller(128, reason=2), "ffff 0010 00002320 0014 0080 0000 02 00"),
        (
            actions.controller(userdata=b"abc", meter=7),
            "ffff 0028 00002320 0025 000000000000 0000 0006 ffff 0000 0003 0007 616263 00 0005 0008 00000007",
        ),
        (actions.check_pkt_larger(1450, oxm.REG5, 3), "ffff 0018 00002320 0031 05aa 0003 00010a04 000000000000"),
        (actions.goto_table(60), "0001 0008 3c 000000"),
        (actions.meter(4), "0006 0008 00000004"),
        (actions.write_metadata(1, 3), "0002 0018 00000000 0000000000000001 0000000000000003"),
        (actions.apply_actions(), "0004 0008 00000000"),
        (
            actions.apply_actions(actions.dec_ttl(), actions.group(1)),
            "0004 0018 00000000 0018 0008 00000000 0016 0008 00000001",
        ),
    ],
)
def test_an_action_has_the_bytes_of_the_specification(action: bytes, expected: str) -> None:
    assert action == bytes.fromhex(expected)


@pytest.mark.parametrize("size", range(1, 20))
def test_userdata_of_any_length_leaves_the_action_aligned(size: int) -> None:
    action = actions.controller(userdata=bytes(size))
    assert len(action) % 8 == 0
    assert int.from_bytes(action[2:4], "big") == len(action)


@pytest.mark.parametrize(
    "make",
    [
        lambda: actions.load(oxm.REG0, 2**32),
        lambda: actions.load(oxm.REG0, 2, bits=1),
        lambda: actions.load(oxm.XXREG0, 1),
        lambda: actions.load(oxm.REG0, 0, offset=30, bits=3),
        lambda: actions.load(oxm.REG0, -1),
        lambda: actions.move(oxm.REG0, oxm.REG1, bits=33),
        lambda: actions.move(oxm.REG0, oxm.REG1, src_offset=-1),
        lambda: actions.move(oxm.REG0, oxm.REG1, src_offset=32),
        lambda: actions.output_reg(oxm.XXREG0),
        lambda: actions.check_pkt_larger(1, oxm.REG0, 32),
        lambda: actions.set_field(b""),
        lambda: actions.set_field(oxm.reg(0, 1) + oxm.reg(1, 1)),
        lambda: actions.controller(userdata=bytes(70_000)),
        lambda: actions.apply_actions(bytes(70_000)),
    ],
)
def test_what_cannot_be_expressed_is_refused(make: object) -> None:
    with pytest.raises(ValueError):
        make()  # type: ignore[operator]
