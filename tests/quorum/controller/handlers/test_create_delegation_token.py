"""CreateDelegationToken on the controller: for clients of a broker."""

from tests.quorum.controller.handlers.controller_client import SUPER_USER, controller_client
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)

SECRET = {"delegation_token_secret_key": "k"}
CREATION = CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1)


async def test_forwarded_token_belongs_to_client_and_expires(tmp_path):
    """The principal in the envelope owns the token; the sweep removes it after its expiry."""
    keys = {
        "delegation_token_max_lifetime_ms": 1,
        "delegation_token_expiry_check_interval_ms": 1,
    }
    async with controller_client(tmp_path, **SECRET, **keys) as one:
        token = await one.forwarded(CREATION, 3, "alice")
        assert (token.error_code, token.principal_name) == (0, "alice")
        assert len(token.hmac) == 64
        await one.images.wait_for(lambda image: not image.tokens)


async def test_plaintext_client_gets_no_token(tmp_path):
    async with controller_client(tmp_path, **SECRET) as one:
        answer = await one.call(CREATION)
        assert answer.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


async def test_token_for_another_user_needs_permission(tmp_path):
    async with controller_client(tmp_path, **SECRET, **SUPER_USER) as one:
        for_bob = CREATION.replace(owner_principal_type="User", owner_principal_name="bob")
        own = await one.forwarded(CREATION, 3, "alice")
        assert (own.error_code, own.principal_name) == (0, "alice")
        refused = await one.forwarded(for_bob, 3, "alice")
        assert refused.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
        allowed = await one.forwarded(for_bob, 3, "ANONYMOUS")
        assert (allowed.error_code, allowed.principal_name) == (0, "bob")


async def test_token_too_large_for_record_leaves_leadership_intact(tmp_path):
    """A name of the maximum size fits a request, but not with the prefix "User:"."""
    async with controller_client(tmp_path, **SECRET) as one:
        active_controller = one.running.context.controller.active()
        renewer = CreatableRenewers(principal_type="User", principal_name="n" * 0x7FFF)
        token = await one.forwarded(CREATION.replace(renewers=[renewer]), 3, "alice")
        assert token.error_code == ErrorCode.INVALID_REQUEST
        assert one.running.context.controller.active() is active_controller
        assert not active_controller.committed.closed
