"""Certificates that are expired, expire soon, or are not valid yet."""

import datetime as dt

import pytest
from cryptography import x509
from hypothesis import given
from hypothesis import strategies as st

from tests.certificates import Certificates
from tests.checks import assert_only_raises
from trimaran.wire.security.tls.certificate import certificate_of, certificates
from trimaran.wire.security.tls.contexts import certificate_doubts
from trimaran.wire.security.tls.validity import SOON, doubts

NOW = dt.datetime(2026, 11, 30, 12, 0, tzinfo=dt.UTC)
DAY, HOUR = dt.timedelta(days=1), dt.timedelta(hours=1)


@pytest.fixture(scope="module")
def authority():
    return Certificates()


def chain_of(authority, begin, end):
    return authority.issue("localhost", common_name="n", not_before=begin, not_after=end)[1]


@pytest.mark.parametrize(
    ("begin", "end", "told"),
    [
        (-DAY, SOON + HOUR, None),
        (-DAY, SOON - HOUR, "expires in 29 days, at 2026-12-30 11:00 UTC"),
        (-DAY, DAY, "expires in 1 day, at 2026-12-01 12:00 UTC"),
        (-DAY, 5 * HOUR, "expires in 5 hours, at 2026-11-30 17:00 UTC"),
        (-DAY, HOUR / 2, "expires in less than an hour, at 2026-11-30 12:30 UTC"),
        (-9 * DAY, -3 * DAY, "expired 3 days ago, at 2026-11-27 12:00 UTC"),
        (
            DAY,
            90 * DAY,
            "is not valid before 2026-12-01 12:00 UTC: is the clock of this machine right (2026-11-30 12:00 UTC)?",
        ),
    ],
)
def test_validity_of_certificate_is_described(authority, begin, end, told):
    chain = chain_of(authority, NOW + begin, NOW + end)
    (name,) = {each.subject for each in certificates(chain) if "CN=n" in each.subject}
    expected = [] if told is None else [f"the certificate of {name} {told}"]
    assert list(doubts(chain, NOW)) == expected


@pytest.mark.parametrize("year", [1951, 1999, 2049, 2050, 9999])
def test_times_of_every_century_are_read(authority, year):
    """Years from 2050 on are written with four digits."""
    begin = dt.datetime(year, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
    chain = chain_of(authority, begin, begin + dt.timedelta(days=360))
    (found, *_) = certificates(chain)
    assert (found.not_before, found.not_after) == (begin, begin + dt.timedelta(days=360))


def test_certificate_is_read_as_by_cryptography(authority):
    (found, *_) = certificates(authority.server[1])
    parsed = x509.load_pem_x509_certificate(authority.server[1].encode())
    assert found.not_after == parsed.not_valid_after_utc
    assert found.not_before == parsed.not_valid_before_utc
    (own, *_) = certificates(authority.ca)
    assert (found.is_self_signed, own.is_self_signed) == (False, True)


@given(st.binary(max_size=60))
def test_other_bytes_are_no_certificate(data):
    assert certificate_of(data) is None
    assert_only_raises((), lambda: list(doubts(f"-----BEGIN CERTIFICATE-----\n{data!r}", NOW)))


def test_certificates_in_configured_stores_are_checked(authority):
    pair = authority.expired()
    server = authority.server_settings(pair)
    ((key, told),) = certificate_doubts(server, dt.datetime.now(dt.UTC))
    assert (key, "expired 1 day ago" in told) == ("ssl.keystore.certificate.chain", True)
    far = dt.datetime.now(dt.UTC) + 366_000 * DAY
    keys = {key for key, _ in certificate_doubts(server, far)}
    assert keys == {"ssl.keystore.certificate.chain", "ssl.truststore.certificates"}
    assert list(certificate_doubts(authority.client_settings(), dt.datetime.now(dt.UTC))) == []
