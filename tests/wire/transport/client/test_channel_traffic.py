"""The traffic of several connections is summed separately for each counter."""

from dataclasses import astuple

from trimaran.wire.transport.client.channel_traffic import ChannelTraffic


def test_each_counter_is_summed_separately():
    total = ChannelTraffic()
    total.add(ChannelTraffic(requests=1, responses=2, bytes_in=4, bytes_out=8))
    total.add(ChannelTraffic(requests=10, responses=20, bytes_in=40, bytes_out=80))
    assert astuple(total) == (11, 22, 44, 88)
