"""The test daemon does what was seen of the real one."""

from collections.abc import Iterator

import pytest

from dataplane.mizar import procedures as p
from dataplane.mizar import values as v
from dataplane.mizar.client import Client, Settings
from dataplane.mizar.errors import CodeError, ReplyError
from dataplane.mizar.limits import HOSTED_ENDPOINTS
from tests.lab.transitd import TransitDaemon

MAC = bytes.fromhex("020000000001")
OWN = b"\xac\x10\0\1"


@pytest.fixture
def daemon() -> Iterator[TransitDaemon]:
    with TransitDaemon() as running:
        yield running


@pytest.fixture
def client(daemon: TransitDaemon) -> Iterator[Client]:
    made = Client(Settings(port=daemon.tcp_port, patience_s=20.0))
    yield made
    made.close()


def ip(number: int) -> bytes:
    return bytes((10, 0, number >> 8, number & 255))


def hosted(number: int) -> v.Endpoint:
    return v.Endpoint("eth0", ip(number), v.EndpointType.SIMPLE, (OWN,), MAC, f"veth{number}", "", 3)


def key(number: int) -> v.EndpointKey:
    return v.EndpointKey("eth0", 3, ip(number))


def metadata(name: str) -> v.AgentMetadata:
    return v.AgentMetadata(name, v.TunIntf("eth0", OWN, MAC), hosted(1), v.Network(name, 24, 3, ip(0), (OWN,)))


def load(client: Client) -> None:
    client.load_transit_xdp(v.XdpIntf("eth0", "/transit"))


def test_nothing_goes_before_the_transit_program(daemon: TransitDaemon, client: Client) -> None:
    answers = client.run(
        [p.UPDATE_EP(hosted(1)), p.UPDATE_VPC(v.Vpc("eth0", 3)), p.UPDATE_AGENT_EP(v.substrate("veth1", OWN, MAC))]
    )
    assert ["code 2" in str(answer.error) for answer in answers] == [True] * 3
    with pytest.raises(CodeError, match="code -1"):
        client.unload_transit_xdp_pipeline_stage(v.EbpfProgStage("eth0", v.Stage.SCALED_EP))


def test_agent_metadata_wants_both_programs(client: Client) -> None:
    with pytest.raises(CodeError, match="code 2"):
        client.update_agent_md(metadata("veth1"))
    client.load_transit_agent_xdp(v.XdpIntf("veth1", "/agent"))
    with pytest.raises(CodeError, match="code 2"):
        client.update_agent_md(metadata("veth1"))
    load(client)
    client.update_agent_md(metadata("veth1"))
    assert client.get_agent_md(v.Intf("veth1")).eth.ip == OWN


def test_a_repeated_hosted_endpoint_takes_a_slot_each_time(daemon: TransitDaemon, client: Client) -> None:
    load(client)
    client.update_ep(hosted(1))
    answers = client.run([p.UPDATE_EP(hosted(2))] * HOSTED_ENDPOINTS)
    assert [answer.done for answer in answers] == [True] * (HOSTED_ENDPOINTS - 1) + [False]
    assert daemon.state.leaked == HOSTED_ENDPOINTS - 2
    assert daemon.state.duplicates == HOSTED_ENDPOINTS - 1
    client.delete_ep(key(2))
    client.update_ep(hosted(3))
    with pytest.raises(CodeError, match="code 2"):
        client.update_ep(hosted(4))


def test_deleting_before_updating_leaves_no_slot_behind(daemon: TransitDaemon, client: Client) -> None:
    load(client)
    client.update_ep(hosted(1))
    answers = client.run([p.DELETE_EP(key(1)), p.UPDATE_EP(hosted(1))] * 300)
    assert all(answer.done for answer in answers)
    assert daemon.state.leaked == 0


def test_a_failed_load_makes_later_ones_say_that_they_failed(daemon: TransitDaemon, client: Client) -> None:
    load(client)
    daemon.state.bad_paths.add("/bad")
    with pytest.raises(CodeError, match="code 3"):
        client.load_transit_agent_xdp(v.XdpIntf("veth1", "/bad"))
    with pytest.raises(CodeError, match="code 3"):
        client.load_transit_agent_xdp(v.XdpIntf("veth1", "/agent"))
    client.update_agent_md(metadata("veth1"))


def test_an_agent_load_can_do_nothing_and_say_it_was_done(daemon: TransitDaemon, client: Client) -> None:
    load(client)
    daemon.state.forgetful.add("veth1")
    client.load_transit_agent_xdp(v.XdpIntf("veth1", "/agent"))
    with pytest.raises(CodeError, match="code 2"):
        client.update_agent_md(metadata("veth1"))
    client.load_transit_agent_xdp(v.XdpIntf("veth1", "/agent"))
    client.update_agent_md(metadata("veth1"))


def test_a_hosted_interface_that_is_not_there_is_stored_as_elsewhere(daemon: TransitDaemon, client: Client) -> None:
    daemon.state.known = {"eth0"}
    load(client)
    with pytest.raises(CodeError, match="code 1"):
        client.update_ep(hosted(1))
    assert [value["hosted_interface"] for value in daemon.state.table("ep").values()] == [""]


def test_the_longest_prefix_is_found_and_the_asked_address_echoed(client: Client) -> None:
    load(client)
    client.update_net(v.Network("eth0", 24, 3, ip(0), (OWN,)))
    assert client.get_net(v.NetworkKey("eth0", 32, 3, ip(9))) == v.Network("eth0", 24, 3, ip(9), (OWN,))
    with pytest.raises(CodeError, match="code 2"):
        client.delete_net(v.NetworkKey("eth0", 32, 3, ip(9)))


def test_after_a_restart_nothing_stands(daemon: TransitDaemon, client: Client) -> None:
    load(client)
    client.update_ep(hosted(1))
    daemon.restart()
    client.run([])
    assert daemon.state.empty
    with pytest.raises(CodeError, match="code 2"):
        client.update_ep(hosted(1))


def test_every_quirk_can_be_left_out(daemon: TransitDaemon, client: Client) -> None:
    quirks = daemon.quirks
    quirks.slot_leak = quirks.sticky_loads = quirks.second_load_kills = quirks.broken_gets = False
    quirks.bandwidth_unknown_is_done = False
    daemon.state.bad_paths.add("/bad")
    with pytest.raises(CodeError, match="code 3"):
        client.load_transit_xdp(v.XdpIntf("eth0", "/bad"))
    load(client)
    client.load_transit_xdp(v.XdpIntf("eth1", "/transit"))
    load(client)
    assert all(answer.done for answer in client.run([p.UPDATE_EP(hosted(1))] * 300))
    assert client.get_ep(key(9)).interface == ""
    with pytest.raises(CodeError, match="code 2"):
        client.update_tx_stats(v.TxStats("eth9", ip(0), 0, 0, 0, 0, 0, 0))


def test_all_that_is_updated_is_deleted(daemon: TransitDaemon, client: Client) -> None:
    daemon.state.qos = True
    load(client)
    client.load_transit_agent_xdp(v.XdpIntf("veth1", "/agent"))
    made = [p.UPDATE_VPC(v.Vpc("eth0", 3, (OWN,))), p.UPDATE_NET(v.Network("eth0", 24, 3, ip(0)))]
    made += [p.UPDATE_EP(hosted(1)), p.UPDATE_AGENT_EP(v.substrate("veth1", OWN, MAC))]
    gone = [p.DELETE_VPC(v.VpcKey("eth0", 3)), p.DELETE_NET(v.NetworkKey("eth0", 24, 3, ip(0)))]
    gone += [p.DELETE_EP(key(1)), p.DELETE_AGENT_EP(v.EndpointKey("veth1", 0, OWN))]
    for number, name in ((23, "eth0"), (29, "veth1")):
        cidr = v.VsipCidr(name, 3, ip(1), ip(0), 24, v.CidrType.PRIMARY, 1)
        ppo = v.VsipPpo(name, 3, ip(1), 6, 80, 1)
        enforce = v.VsipEnforce(name, 3, ip(1))
        made += [p.PROCEDURES[number](cidr), p.PROCEDURES[number + 2](enforce), p.PROCEDURES[number + 4](ppo)]
        cidr_key = v.VsipCidrKey(name, 3, ip(1), ip(0), 24, v.CidrType.PRIMARY)
        gone += [p.PROCEDURES[number + 1](cidr_key), p.PROCEDURES[number + 3](enforce)]
        gone += [p.PROCEDURES[number + 5](v.VsipPpoKey(name, 3, ip(1), 6, 80))]
    made += [p.UPDATE_PACKET_METADATA(v.PacketMetadata("veth1", ip(1), 3, 7, 8, 1000, 2, 0))]
    gone += [p.DELETE_PACKET_METADATA(v.PacketMetadataKey("veth1", 3, ip(1)))]
    made += [p.UPDATE_TRANSIT_POD_LABEL_POLICY(v.PodLabelPolicy("eth0", 3, 7, 1))]
    gone += [p.DELETE_TRANSIT_POD_LABEL_POLICY(v.PodLabelPolicyKey("eth0", 3, 7))]
    made += [p.UPDATE_TRANSIT_NAMESPACE_LABEL_POLICY(v.NamespaceLabelPolicy("eth0", 3, 7, 1))]
    gone += [p.DELETE_TRANSIT_NAMESPACE_LABEL_POLICY(v.NamespaceLabelPolicyKey("eth0", 3, 7))]
    made += [p.UPDATE_TRANSIT_POD_AND_NAMESPACE_LABEL_POLICY(v.PodAndNamespaceLabelPolicy("eth0", 3, 7, 8, 1))]
    gone += [p.DELETE_TRANSIT_POD_AND_NAMESPACE_LABEL_POLICY(v.PodAndNamespaceLabelPolicyKey("eth0", 3, 7, 8))]
    made += [p.UPDATE_BW_QOS_CONFIG(v.BwQosConfig("eth0", OWN, 1000))]
    gone += [p.DELETE_BW_QOS_CONFIG(v.BwQosConfigKey("eth0", OWN))]
    made += [p.LOAD_TRANSIT_XDP_PIPELINE_STAGE(v.EbpfProg("eth0", v.Stage.SCALED_EP, "/scaled"))]
    gone += [p.UNLOAD_TRANSIT_XDP_PIPELINE_STAGE(v.EbpfProgStage("eth0", v.Stage.SCALED_EP))]
    assert [answer.error for answer in client.run(made)] == [None] * len(made)
    assert not daemon.state.empty
    assert [answer.error for answer in client.run(gone)] == [None] * len(gone)
    assert daemon.state.empty
    missing = client.run([call for call in gone if call.procedure.missing])
    assert all(isinstance(answer.error, CodeError) for answer in missing)
    assert all(answer.error.code in answer.call.procedure.missing for answer in missing)  # type: ignore[union-attr]


def test_a_first_get_of_nothing_is_garbled_and_a_later_one_empty(client: Client) -> None:
    load(client)
    with pytest.raises(ReplyError):
        client.get_agent_ep(v.EndpointKey("veth1", 0, OWN))
    client.load_transit_agent_xdp(v.XdpIntf("veth1", "/agent"))
    client.update_agent_ep(v.substrate("veth1", OWN, MAC))
    assert client.get_agent_ep(v.EndpointKey("veth1", 0, OWN)).mac == MAC
    assert client.get_agent_ep(v.EndpointKey("veth1", 0, ip(1))).interface == ""
