"""Captured frames as JSON lines: the input of `trimaran wire decode`, and its errors for invalid lines."""

from __future__ import annotations

import base64
import json

import pytest

from trimaran.cli.wire import decode as decode_command
from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.messages.api_versions import ApiVersionsRequest
from trimaran.wire.messages.header import encode_request, encode_response
from trimaran.wire.messages.metadata import MetadataResponse
from trimaran.wire.text.captured import decode, encode_again, first_difference, parse_line

VERSIONS = 18


def line(frame, key=VERSIONS, version=4, direction="request", **more):
    text = base64.b64encode(bytes(frame)).decode()
    return json.dumps(
        {"api_key": key, "api_version": version, "direction": direction, "frame": text, **more}
    )


def versions_request(correlation_id=7, client_id="me"):
    request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    return encode_request(request, 4, correlation_id, client_id)


def test_request_round_trip_preserves_content():
    captured = parse_line(line(versions_request(), seen="in a test"))
    decoded = decode(captured)
    assert (captured.api_name, decoded.correlation_id, decoded.client_id) == (
        "ApiVersions",
        7,
        "me",
    )
    assert encode_again(captured, decoded) == captured.frame


def test_response_round_trip_preserves_content():
    response = MetadataResponse(brokers=[], topics=[], cluster_id="c", controller_id=1)
    captured = parse_line(line(encode_response(response, 9, 3), 3, 9, "response"))
    decoded = decode(captured)
    assert (decoded.correlation_id, decoded.client_id) == (3, None)
    assert encode_again(captured, decoded) == captured.frame


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("oops", "not JSON"),
        ("[]", "not a JSON object"),
        ("{}", "api_key"),
        (line(b"", key=True), "api_key"),
        (line(b"", version="1"), "api_version"),
        (line(b"", direction="sideways"), "sideways"),
        (line(b"").replace('"frame": ""', '"frame": "?"'), "base64"),
        (line(b"").replace('"frame": ""', '"frame": null'), "base64"),
    ],
)
def test_malformed_line_is_refused(text, told):
    with pytest.raises(RemoteProtocolError, match=told):
        parse_line(text)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (line(versions_request(), key=9999), "key 9999"),
        (line(versions_request(), version=9999), "has versions"),
        (line(versions_request(), version=3), "header says"),
        (line(versions_request()[:-1]), "malformed"),
        (line(versions_request() + b"x"), "followed by"),
        (line(b"", direction="response"), "too short"),
    ],
)
def test_malformed_frame_is_refused(text, told):
    with pytest.raises(RemoteProtocolError, match=told):
        decode(parse_line(text))


def test_first_difference_of_frames_is_found():
    assert first_difference(b"abc", b"abc") is None
    assert first_difference(b"abc", b"axc") == 1
    assert first_difference(b"abc", b"ab") == 2


def test_command_fails_if_one_line_is_bad(tmp_path, capsys):
    overlong = bytes(versions_request()).replace(b"\x02a", b"\x82\x00a")  # a varint of two bytes
    file = tmp_path / "frames.jsonl"
    file.write_text("\n".join([line(versions_request()), "", line(overlong), "oops"]))
    assert decode_command(file, check=True) == 1
    shown = [json.loads(text) for text in capsys.readouterr().out.splitlines()]
    assert [row["line"] for row in shown] == [1, 3, 4]
    assert shown[0]["message"] == {"client_software_name": "a", "client_software_version": "1"}
    assert shown[0]["check"] == "same"
    assert shown[1]["check"].startswith("differs at byte")
    assert "not JSON" in shown[2]["error"]
    file.write_text(line(versions_request()))
    assert decode_command(file, check=True) == 0
