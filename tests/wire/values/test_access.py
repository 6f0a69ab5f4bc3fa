"""A registry and the credentials to read it, as passed to executors: its client uses all of them."""

import socket

import pytest

from tests.certificates import Certificates
from tests.wire.values.naive_registry import naive_registry
from trimaran.wire.security.tls.contexts import server_context
from trimaran.wire.values.access import RegistryAccess
from trimaran.wire.values.failures import RegistryFailure, UnusableSchema
from trimaran.wire.values.framing import IdKind, SchemaId

ID = SchemaId(IdKind.SHORT, 1)


def test_client_trusts_the_given_authority(tmp_path):
    certificates = Certificates()
    with naive_registry(server_context(certificates.server_settings())) as served:
        served.register("a", '"int"')
        authority = tmp_path / "authority.pem"
        authority.write_text(certificates.ca)
        client = RegistryAccess(served.url, "me", "secret", ca=str(authority)).client()
        assert client.schema(ID).text == '"int"'
        assert served.authorizations == ["Basic bWU6c2VjcmV0"]
        with pytest.raises(RegistryFailure, match="its certificate is refused"):
            RegistryAccess(served.url).client().schema(ID)


def test_client_uses_timeout_of_its_caller():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        access = RegistryAccess(f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(RegistryFailure, match=r"has not answered within 0\.05 s"):
            access.client(0.05).schema(ID)


def test_client_reads_ids_of_the_given_kind():
    with naive_registry() as served:
        for kind, path in ((None, "contentIds"), (IdKind.GLOBAL, "globalIds")):
            access = RegistryAccess(f"{served.url}/apis/registry/v3", token="t", ids=kind)
            with pytest.raises(UnusableSchema, match="answers 404"):
                access.client().schema(ID)
            assert f"/ids/{path}/1?" in served.asked[-1]
        assert served.authorizations == ["Bearer t"] * 2
