"""Who may log in: users and tokens of the image, and nobody that it does not know."""

import base64

import pytest

from quorum.metadata.delta import MetadataDelta
from quorum.metadata.image import EMPTY, Provenance
from quorum.metadata.tokens import token_hmac
from quorum.serving.accounts import Accounts
from wire.records.security import (
    DelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from wire.security.exchange import AuthenticationFailed
from wire.security.principal import Principal
from wire.security.scram import ScramExchange, credential_of
from wire.security.scram_client import ScramCredentials

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
    found.know(delta.apply(Provenance(1, 1, 1)))
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


def test_who_is_removed_or_has_too_few_iterations_is_nobody():
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


def test_two_nodes_make_the_same_salt_up():
    one, other = (accounts_of(user("alice"), user("bob")) for _ in range(2))
    assert made_up_salt(one) == made_up_salt(one) == made_up_salt(other)
    assert made_up_salt(one) != made_up_salt(one, "mallory")
    assert len(made_up_salt(one)) == len(user("alice").salt)


def test_without_a_common_secret_each_node_makes_up_its_own():
    one, other = (accounts_of(user("alice"), secret="") for _ in range(2))
    assert made_up_salt(one) == made_up_salt(one) != made_up_salt(other)


def test_nothing_that_is_shown_to_everybody_is_made_of_a_password():
    """Else passwords could be tried against it, without asking anybody again."""
    one, other = accounts_of(user("alice", "secret")), accounts_of(user("alice", "another"))
    assert made_up_salt(one) == made_up_salt(other)
    assert made_up_salt(accounts_of(user("alice"), secret="t")) != made_up_salt(one)


def password_of(token_id):
    return base64.b64encode(token_hmac(SECRET, token_id)).decode()


def test_a_token_logs_its_owner_in_for_as_long_as_it_lives():
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
def test_tokens_that_log_nobody_in(accounts, by_token):
    with pytest.raises(AuthenticationFailed, match="invalid credentials"):
        log_in(accounts, "t", password_of("t"), by_token=by_token)


def test_an_unknown_token_has_the_salt_that_it_would_have():
    known, unknown = accounts_of(token("t")), accounts_of(token("other"))
    salts = {one.find("SCRAM-SHA-512", "t", True).credential.salt for one in (known, unknown)}
    assert len(salts) == 1
