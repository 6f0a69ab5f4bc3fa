"""Accounts that may log in: users and tokens of the image, and unknown names."""

import base64

import pytest

from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.image import EMPTY, Provenance
from trimaran.quorum.metadata.tokens import token_hmac
from trimaran.quorum.serving.accounts import Accounts
from trimaran.wire.records.security import (
    DelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from trimaran.wire.security.principal import Principal
from trimaran.wire.security.sasl.exchange import AuthenticationFailed
from trimaran.wire.security.sasl.scram import ScramExchange, credential_of
from trimaran.wire.security.sasl.scram_client import ScramCredentials

NOW = 1_000_000
SECRET = "s"


def user(name, password="secret", iterations=4096):
    found = credential_of("sha512", password, b"salt" * 6, iterations)
    return UserScramCredentialRecord(
        name=name,
        mechanism=2,
        salt=found.salt,
        stored_key=found.stored_key,
        server_key=found.server_key,
        iterations=iterations,
    )


def token(token_id, ends_at=NOW + 5000, max_at=NOW + 9000):
    return DelegationTokenRecord(
        owner="User:alice",
        requester="User:alice",
        renewers=[],
        issue_timestamp=0,
        max_timestamp=max_at,
        expiration_timestamp=ends_at,
        token_id=token_id,
    )


def accounts_of(*records, secret=SECRET):
    delta = MetadataDelta(EMPTY)
    for record in records:
        delta.replay(record)
    found = Accounts(secret, lambda: NOW)
    found.use_image(delta.apply(Provenance(1, 1, 1)))
    return found


def log_in(accounts, name, password="secret", **options):
    exchange = ScramExchange("SCRAM-SHA-512", accounts.find)
    tokens = ScramCredentials("SCRAM-SHA-512", name, password, **options).exchange()
    final = tokens.send(exchange.evaluate(next(tokens)).token)
    done = exchange.evaluate(final)
    with pytest.raises(StopIteration):
        tokens.send(done.token)
    return done


def test_users_log_in_by_the_mechanism_they_have():
    accounts = accounts_of(user("alice"), user("b:o*b"))
    assert log_in(accounts, "alice").principal == Principal("alice")
    assert log_in(accounts, "b:o*b").principal == Principal("b:o*b")
    assert accounts.find("SCRAM-SHA-256", "alice", False).principal is None


def test_removed_or_weak_user_is_unknown():
    removal = RemoveUserScramCredentialRecord(name="alice", mechanism=2)
    for accounts in (
        accounts_of(user("alice"), user("bob"), removal),
        accounts_of(user("alice", iterations=4095)),
        Accounts(),
    ):
        with pytest.raises(AuthenticationFailed, match="invalid credentials"):
            log_in(accounts, "alice")


def made_up_salt(accounts, name="eve"):
    return accounts.find("SCRAM-SHA-512", name, False).credential.salt


def test_nodes_with_same_secret_invent_same_salt():
    one, other = (accounts_of(user("alice"), user("bob")) for _ in range(2))
    assert made_up_salt(one) == made_up_salt(one) == made_up_salt(other)
    assert made_up_salt(one) != made_up_salt(one, "mallory")
    assert len(made_up_salt(one)) == len(user("alice").salt)


def test_nodes_without_secret_invent_different_salts():
    one, other = (accounts_of(user("alice"), secret="") for _ in range(2))
    assert made_up_salt(one) == made_up_salt(one) != made_up_salt(other)


def test_invented_salt_does_not_depend_on_passwords():
    """If it did, guessed passwords could be checked against the salt offline."""
    one, other = accounts_of(user("alice", "secret")), accounts_of(user("alice", "another"))
    assert made_up_salt(one) == made_up_salt(other)
    assert made_up_salt(accounts_of(user("alice"), secret="t")) != made_up_salt(one)


def password_of(token_id):
    return base64.b64encode(token_hmac(SECRET, token_id)).decode()


def test_token_login_lasts_as_long_as_token():
    done = log_in(accounts_of(token("t")), "t", password_of("t"), by_token=True)
    assert done.principal == Principal("alice", by_token=True)
    assert done.principal.by_token
    assert done.lifetime_ms == 5000
    done = log_in(accounts_of(token("t", max_at=NOW + 1)), "t", password_of("t"), by_token=True)
    assert done.lifetime_ms == 1


@pytest.mark.parametrize(
    ("accounts", "by_token"),
    [
        (accounts_of(token("t", ends_at=NOW)), True),
        (accounts_of(token("t", max_at=NOW - 1)), True),
        (accounts_of(token("other")), True),
        (accounts_of(token("t"), secret=""), True),
        (accounts_of(token("t"), secret="another"), True),
        (accounts_of(token("t")), False),
        (accounts_of(user("t", password_of("t"))), True),
    ],
)
def test_invalid_tokens_do_not_log_in(accounts, by_token):
    with pytest.raises(AuthenticationFailed, match="invalid credentials"):
        log_in(accounts, "t", password_of("t"), by_token=by_token)


def test_unknown_token_has_a_stable_salt():
    known, unknown = accounts_of(token("t")), accounts_of(token("other"))
    salts = {item.find("SCRAM-SHA-512", "t", True).credential.salt for item in (known, unknown)}
    assert len(salts) == 1


def shown(accounts, name="eve", mechanism="SCRAM-SHA-512", *, by_token=False):
    """Returns the account as an unauthenticated client sees it."""
    found = accounts.find(mechanism, name, by_token).credential
    return len(found.salt), found.iterations


def with_salt(record, size, iterations):
    return record.replace(salt=b"x" * size, iterations=iterations)


def test_unknown_name_imitates_first_eligible_user():
    """The first by name, regardless of creation order, and of the same mechanism."""
    amy, bob = with_salt(user("amy"), 16, 5000), with_salt(user("bob"), 20, 6000)
    short = with_salt(user("aaa"), 12, 4095)
    other = with_salt(user("aab"), 14, 7000).replace(mechanism=1)
    for records in ((amy, bob), (bob, amy), (short, bob, amy), (bob, other, amy)):
        assert shown(accounts_of(*records)) == (16, 5000)
    for size in range(14, 24):
        names = [f"user-{number:02}" for number in range(size, 40, 2)]
        many = [with_salt(user(name), int(name[-2:]), 5000) for name in names]
        assert shown(accounts_of(*many)) == (size, 5000)
    assert shown(accounts_of(bob, other), mechanism="SCRAM-SHA-256") == (14, 7000)
    for accounts in (Accounts(), accounts_of(short), accounts_of(other)):
        assert shown(accounts) == (26, 4096), "as Kafka's tools make them"
    assert shown(accounts_of(short), "aaa") == (26, 4096)
    assert shown(accounts_of(amy, bob), "bob") == (20, 6000)
    fewest = with_salt(user("ann"), 18, 4096)
    assert shown(accounts_of(fewest)) == (18, 4096)


def test_users_and_tokens_follow_newest_image():
    accounts = accounts_of(with_salt(user("amy"), 16, 5000), token("t"))
    known = accounts.find("SCRAM-SHA-512", "amy", False).principal
    assert known == Principal("amy")
    delta = MetadataDelta(EMPTY)
    for record in (with_salt(user("bob"), 20, 6000), token("u")):
        delta.replay(record)
    accounts.publish(delta, delta.apply(Provenance(2, 1, 1)), None)
    found = {
        name: accounts.find("SCRAM-SHA-512", name, by_token).principal
        for name, by_token in (("amy", False), ("bob", False), ("t", True), ("u", True))
    }
    assert found == {
        "amy": None,
        "bob": Principal("bob"),
        "t": None,
        "u": Principal("alice", by_token=True),
    }
    assert shown(accounts) == (20, 6000)


def test_known_and_unknown_tokens_look_alike():
    accounts = accounts_of(token("t"), user("amy", iterations=9000))
    for name in ("t", "nobody"):
        assert shown(accounts, name, by_token=True) == (24, 4096)
    salts = [accounts.find("SCRAM-SHA-512", name, True).credential.salt for name in "tuv"]
    assert len(set(salts)) == 3
    again = accounts.find("SCRAM-SHA-256", "t", True)
    assert again.credential.salt == salts[0]
    assert again.lifetime_ms == 5000


def test_invented_salts_are_stable_across_versions():
    """A cluster that is upgraded node by node would otherwise reveal unused names."""
    users, tokens = accounts_of(), accounts_of(token("t"))
    assert made_up_salt(users) == b"88huyy9vcrtifzn9kvu5zyyky9"
    salt = "10d5403bd2a50ba27f2fe3142e3eadcf1a1a4e576ff54cf2"
    for accounts in (users, tokens):
        assert accounts.find("SCRAM-SHA-512", "t", True).credential.salt.hex() == salt
