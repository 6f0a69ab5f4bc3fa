"""SCRAM from both sides: the examples of the RFCs, any name and password, and dishonest peers."""

import base64
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimaran.wire.client.errors import AuthenticationRefused
from trimaran.wire.security.principal import Principal
from trimaran.wire.security.sasl.exchange import AuthenticationFailed, Challenge, Done
from trimaran.wire.security.sasl.scram import (
    SCRAM_DIGESTS,
    ScramAccount,
    ScramCredential,
    ScramExchange,
    credential_of,
    made_up_credential,
    salted_password,
)
from trimaran.wire.security.sasl.scram_client import ScramCredentials

LONGEST = 8192

SALT = b"0123456789abcdefghijklmnop"
CLIENT_NONCE, SERVER_NONCE = "rOprNGfwEbeRWgbNEkqO", "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SHA256, SHA512 = SCRAM_DIGESTS


def accounts(mechanism, **passwords):
    """Returns a lookup of accounts: these users with their passwords, and a made-up account for every other name."""
    digest = SCRAM_DIGESTS[mechanism]
    known = {
        name: credential_of(digest, password, SALT, 4096) for name, password in passwords.items()
    }

    def find(_mechanism, name, by_token):
        credential = known.get(name)
        if credential is None:
            nobody = ScramCredential(SALT, bytes(32), bytes(32), 4096)
            return ScramAccount(made_up_credential(digest, b"k", name, nobody), None)
        return ScramAccount(
            credential, Principal(name, by_token=by_token), 500 if by_token else None
        )

    return find


def server(mechanism=SHA256, **passwords):
    return ScramExchange(mechanism, accounts(mechanism, **(passwords or {"alice": "secret"})))


def converse(client, exchange, spoil=lambda step, token: token):
    """Returns the server's last step; `spoil` may change messages in transit, identified by number."""
    tokens = client.exchange()
    token = next(tokens)
    for number in itertools.count():
        step = exchange.evaluate(spoil(2 * number, token))
        try:
            token = tokens.send(spoil(2 * number + 1, step.token))
        except StopIteration:
            break
    return step


def test_example_of_rfc_7677_logs_in():
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    credential = credential_of("sha256", "pencil", salt, 4096)
    account = ScramAccount(credential, Principal("user"))
    exchange = ScramExchange(SHA256, lambda *_: account, lambda: SERVER_NONCE)
    client = ScramCredentials(SHA256, "user", "pencil", make_nonce=lambda: CLIENT_NONCE)
    tokens = client.exchange()
    assert next(tokens) == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    first = exchange.evaluate(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert first == Challenge(
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    final = tokens.send(first.token)
    assert final == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    done = exchange.evaluate(final)
    assert done == Done(Principal("user"), b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
    with pytest.raises(StopIteration):
        tokens.send(done.token)


NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)


@given(
    st.sampled_from(sorted(SCRAM_DIGESTS)), NAMES, st.text(st.characters(exclude_categories=["Cs"]))
)
def test_any_name_and_password_log_in(mechanism, name, password):
    exchange = ScramExchange(mechanism, accounts(mechanism, **{name: password}))
    done = converse(ScramCredentials(mechanism, name, password), exchange)
    assert done.principal == Principal(name)


@given(st.sampled_from([0, 2]), st.integers(0, 200), st.integers(1, 255))
def test_changed_client_byte_prevents_login(number, place, change):
    def spoil(step, token):
        if step != number or place >= len(token):
            return token
        return token[:place] + bytes([token[place] ^ change]) + token[place + 1 :]

    try:
        done = converse(ScramCredentials(SHA256, "alice", "secret"), server(), spoil)
    except (AuthenticationFailed, AuthenticationRefused):
        return
    # Nothing was changed, or only in a way that decodes to the same.
    assert done.principal == Principal("alice")


@given(st.binary(max_size=200))
def test_any_first_token_is_answered_or_refused(token):
    said = ""
    try:
        assert isinstance(server().evaluate(token), Challenge)
    except AuthenticationFailed as error:
        said = str(error)
    assert "secret" not in said


@pytest.mark.parametrize(
    ("name", "password"),
    [("alice", "wrong"), ("nobody", "secret"), ("alice", ""), ("Alice", "secret")],
)
def test_wrong_password_and_unknown_user_look_alike(name, password):
    with pytest.raises(AuthenticationFailed, match=r"^invalid credentials with SASL mechanism"):
        converse(ScramCredentials(SHA256, name, password), server())


def test_made_up_credential_looks_real_and_stays():
    like = credential_of("sha256", "x", SALT, 8192)
    one, other = (made_up_credential("sha256", b"k", name, like) for name in ("a", "b"))
    assert one == made_up_credential("sha256", b"k", "a", like)
    assert one.salt != other.salt
    assert (len(one.salt), one.salt.isalnum(), one.iterations) == (26, True, 8192)
    assert made_up_credential("sha256", b"l", "a", like).salt != one.salt


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"n,,",
        b"p=tls-unique,,n=alice,r=x",
        b"n,,m=ext,n=alice,r=x",
        b"n,,n=,r=x",
        b"n,,n=al=ice,r=x",
        b"n,,n=al\0ice,r=x",
        b"n,,n=alice,r=",
        b"n,,n=alice,r=a b",
        b"n,a=root,n=alice,r=x",
        b"n,,n=\xff,r=x",
        b"n,,n=alice,r=" + b"x" * LONGEST,
    ],
)
def test_invalid_first_message_is_refused(token):
    with pytest.raises(AuthenticationFailed):
        server().evaluate(token)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"c=biws", b"c=eSws"),  # the client thought that we do not support channel binding
        (b",r=", b",r=x"),
        (b",r=", b",x=1,r="),
        (b",p=", b",p=AAAA"),
        (b",p=", b",x=1"),
    ],
)
def test_invalid_final_message_is_refused(old, new):
    def spoil(step, token):
        return token.replace(old, new, 1) if step == 2 else token

    with pytest.raises(AuthenticationFailed):
        converse(ScramCredentials(SHA256, "alice", "secret"), server(), spoil)


def test_nonce_with_only_our_suffix_is_refused():
    """Apache Kafka accepts such a nonce."""
    tokens = ScramCredentials(SHA256, "alice", "secret", make_nonce=lambda: "a").exchange()
    exchange = server()
    challenge = exchange.evaluate(next(tokens)).token
    final = tokens.send(challenge)
    with pytest.raises(AuthenticationFailed, match="nonce"):
        exchange.evaluate(final.replace(b"r=a", b"r=xa"))


@pytest.mark.parametrize(
    ("step", "answer"),
    [
        (1, b"r={nonce}x,s=AAAA,i=4095"),
        (1, b"r={nonce}x,s=AAAA,i=16385"),
        (1, b"r={nonce}x,s=AAAA,i=1000000000"),
        (1, b"r={nonce}x,s=AAAA,i=" + b"9" * 5000),
        (1, b"r={nonce}x,s=AAAA,i=-1"),
        (1, b"r={nonce}x,s=,i=4096"),
        (1, b"r={nonce}x,s=A,i=4096"),
        (1, b"r={nonce}x,s====,i=4096"),
        (1, b"r={nonce},s=AAAA,i=4096"),
        (1, b"r=another,s=AAAA,i=4096"),
        (1, b"\xff"),
        (1, b""),
        (3, b"v=AAAA"),
        (3, b"v="),
        (3, b"v=A"),
        (3, b"e=other-error"),
        (3, b"v=" + b"A" * (LONGEST + 1)),
        (3, b""),
    ],
)
def test_dishonest_node_is_refused_before_expensive_work(step, answer):
    client = ScramCredentials(SHA256, "alice", "secret", make_nonce=lambda: "ours")

    def spoil(number, token):
        return answer.replace(b"{nonce}", b"ours") if number == step else token

    with pytest.raises(AuthenticationRefused):
        converse(client, server(), spoil)
    assert "secret" not in repr(client)


@pytest.mark.parametrize("iterations", [4096, 16384])
def test_client_accepts_fewest_and_most_iterations(iterations):
    credential = credential_of(SCRAM_DIGESTS[SHA256], "secret", SALT, iterations)
    account = ScramAccount(credential, Principal("alice"))
    done = converse(
        ScramCredentials(SHA256, "alice", "secret"), ScramExchange(SHA256, lambda *_: account)
    )
    assert done.principal == Principal("alice")


def test_new_salt_or_iterations_recompute_the_password(monkeypatch):
    """This happens when a user's credential is altered while a client runs; otherwise it is done once, because it takes
    milliseconds.
    """
    salted = []

    def counted(digest, password, salt, iterations):
        salted.append((salt, iterations))
        return salted_password(digest, password, salt, iterations)

    monkeypatch.setattr("trimaran.wire.security.sasl.scram_client.salted_password", counted)
    client = ScramCredentials(SHA256, "alice", "secret")
    asked = [(SALT, 4096), (SALT, 8192), (SALT[::-1], 8192), (SALT[::-1], 8192), (SALT, 4096)]
    for salt, iterations in asked:
        account = ScramAccount(
            credential_of(SCRAM_DIGESTS[SHA256], "secret", salt, iterations), Principal("alice")
        )
        assert converse(client, ScramExchange(SHA256, lambda *_, one=account: one)).principal
    assert salted == [*asked[:3], asked[4]]


def test_account_without_principal_cannot_log_in():
    """The account may belong to a delegation token that has expired meanwhile."""
    account = ScramAccount(credential_of(SCRAM_DIGESTS[SHA256], "secret", SALT, 4096), None)
    with pytest.raises(AuthenticationFailed, match="invalid credentials"):
        converse(
            ScramCredentials(SHA256, "alice", "secret"), ScramExchange(SHA256, lambda *_: account)
        )


def test_message_of_maximal_size_is_accepted():
    longest = b"n,,n=alice,r=".ljust(LONGEST, b"x")
    assert isinstance(server().evaluate(longest), Challenge)
    with pytest.raises(AuthenticationFailed, match="no message"):
        server().evaluate(longest + b"x")


@pytest.mark.parametrize("size", [1, 26, 64, 65, 200])
def test_made_up_salt_resembles_the_others(size):
    for salt in (bytes(range(size)), b"a" * size):
        like = ScramCredential(salt, bytes(32), bytes(32), 4096)
        made_up = made_up_credential("sha256", b"k", "a", like)
        assert (len(made_up.salt), made_up.salt.isalnum()) == (size, salt.isalnum())
        assert (len(made_up.stored_key), len(made_up.server_key)) == (32, 32)


def test_token_login_has_token_principal():
    client = ScramCredentials(SHA512, "id", "hmac", by_token=True)
    done = converse(client, server(SHA512, id="hmac"))
    assert (done.principal, done.lifetime_ms) == (Principal("id", by_token=True), 500)
    assert not converse(
        ScramCredentials(SHA512, "id", "hmac"), server(SHA512, id="hmac")
    ).principal.by_token


@pytest.mark.parametrize("extensions", ["", ",a=b", ",a=b=c", ",a=b,tokenauth=false"])
def test_unknown_extensions_are_ignored(extensions):
    step = server().evaluate(f"n,,n=alice,r={CLIENT_NONCE}{extensions}".encode())
    assert isinstance(step, Challenge)
    assert step.token.decode().startswith(f"r={CLIENT_NONCE}")


def test_final_message_logs_in_only_once():
    exchange, client = server(), ScramCredentials(SHA256, "alice", "secret")
    tokens = {}

    def noting(number, token):
        tokens[number] = token
        return token

    for _ in range(2):
        assert converse(client, exchange, noting).principal == Principal("alice")
        with pytest.raises(AuthenticationFailed, match="is no first message of SCRAM-SHA-256"):
            exchange.evaluate(tokens[2])
