"""Access to a console with a password, and the information that a stranger gets."""

import http.client
import ssl
from contextlib import closing
from urllib.parse import urlencode

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.certificates import Certificates
from tests.checks import check_each
from tests.trimaran.console.conftest import console_before
from trimaran.console import login as login_module
from trimaran.console.login import ConsoleLogin, way_back, way_to_login
from trimaran.console.pages.registry import PAGES
from trimaran.console.start import checked_tls
from trimaran.console.write_registry import WRITES
from trimaran.errors.user_error import UserError
from trimaran.wire.transport.connection.failed_logins import DELAY_SECONDS_MAX

PASSWORD = "correct horse battery"
FORM = "application/x-www-form-urlencoded"


@pytest.fixture(scope="module")
def guarded(cluster):
    with console_before(cluster, allow_writes=True, login=ConsoleLogin(PASSWORD)) as asking:
        yield asking


def log_in(browser, password, path="/login", **headers):
    body = urlencode({"password": password})
    return browser.get(path, method="POST", body=body, Content_Type=FORM, **headers)


def session_of(answer):
    return answer.headers["set-cookie"].partition(";")[0]


def test_pages_and_forms_need_a_login(guarded):
    def is_closed(path):
        told = guarded.get(path, accept="application/json")
        assert (told.status, told.json["error"]["what"]) == (401, "no user is logged in")
        assert told.headers["www-authenticate"] == "Bearer"
        went = guarded.get(path)
        assert (went.status, went.headers["location"]) == (303, way_to_login(path, ""))
        assert guarded.get(f"{path}?format=csv").status == 401
        assert guarded.get(path, Cookie="trimaran-console=guessed").status == 303

    others = ("/stream", "/nowhere", "/login/x", "/static/nothing", "/static/../topics")
    check_each([*(page.path for page in PAGES), *others], is_closed)
    assert guarded.get("/login", method="PUT").status == 401
    assert guarded.get("/static/console.css").status == 200

    def is_refused(write):
        assert guarded.get(write.path, method="POST", body="", Content_Type=FORM).status == 401

    check_each([*WRITES], is_refused)
    shown = guarded.get("/login")
    assert shown.status == 200
    assert "127.0.0.1" not in shown.body  # the cluster's address stays private
    assert 'name="token"' not in shown.body


def test_browser_logs_in_and_out(guarded):
    wrong = log_in(guarded, "wrong")
    assert (wrong.status, wrong.headers["set-cookie"]) == (401, None)
    went = log_in(guarded, PASSWORD, way_to_login("/topics", "sort=-topic"))
    assert (went.status, went.headers["location"]) == (303, "/topics?sort=-topic")
    cookie = went.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert "Secure" not in cookie  # plain HTTP would not send it back
    page = guarded.get("/topics", Cookie=f"other=1; {session_of(went)}")
    assert page.status == 200
    token = page.body.partition('name="token" value="')[2].partition('"')[0]
    # Only a cookie, as another site's form would send it, changes nothing.
    forged = {"method": "POST", "Content_Type": FORM, "Cookie": session_of(went)}
    assert guarded.get("/topics", body=urlencode({"name": "x"}), **forged).status == 403
    assert guarded.get("/logout", body="", **forged).status == 403
    left = guarded.get("/logout", body=urlencode({"token": token}), **forged)
    assert left.headers["set-cookie"].startswith("trimaran-console=; Path=/; Max-Age=0;")
    assert guarded.get("/topics", Cookie=session_of(went)).status == 303


def test_program_sends_password_each_time(guarded):
    def with_(words):
        return guarded.get("/topics", accept="application/json", Authorization=words).status

    assert with_(f"Bearer {PASSWORD}") == 200
    assert with_("Bearer wrong") == 401
    assert with_(f"Basic {PASSWORD}") == 401


def test_forms_of_other_sites_do_not_log_in(guarded):
    assert log_in(guarded, PASSWORD, Sec_Fetch_Site="cross-site").status == 403


async def test_wrong_passwords_are_answered_increasingly_late(autojump_clock):
    login = ConsoleLogin(PASSWORD)
    waited = []
    for _ in range(8):
        began = trio.current_time()
        assert not await login.is_right("guess", "10.0.0.1")
        waited.append(trio.current_time() - began)
    assert waited[0] == pytest.approx(login_module.WRONG_SECONDS)
    assert waited == sorted(waited)
    assert waited[-1] == pytest.approx(DELAY_SECONDS_MAX)
    began = trio.current_time()
    assert not await login.is_right("guess", "10.0.0.2")
    assert trio.current_time() - began == pytest.approx(login_module.WRONG_SECONDS)


async def test_guesser_does_not_lock_out_right_password(autojump_clock):
    """Behind a proxy all clients have the same address."""
    login = ConsoleLogin(PASSWORD)
    async with trio.open_nursery() as nursery:
        for _ in range(3 * login_module.HELD_MAX):
            nursery.start_soon(login.is_right, "guess", "10.0.0.1")
        await wait_all_tasks_blocked()
        began = trio.current_time()
        assert await login.is_right(PASSWORD, "10.0.0.1")
        assert await login.knows({"authorization": f"Bearer {PASSWORD}"}, "10.0.0.1")
        assert trio.current_time() == began
        assert login._held.borrowed_tokens == login_module.HELD_MAX
        nursery.cancel_scope.cancel()


@pytest.fixture
def clock(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(login_module.time, "monotonic", lambda: now[0])
    return now


async def test_sessions_of_browsers_are_bounded_and_end(clock, monkeypatch):
    monkeypatch.setattr(login_module, "SESSIONS_MAX", 2)
    login = ConsoleLogin(PASSWORD)
    cookies = [login.open_session().partition(";")[0] for _ in range(3)]
    known = [await login.knows({"cookie": cookie}, "10.0.0.9") for cookie in cookies]
    assert known == [False, True, True]
    clock[0] += login_module.SESSION_SECONDS
    assert not await login.knows({"cookie": cookies[2]}, "10.0.0.9")


@pytest.mark.parametrize(
    ("wanted", "page"),
    [
        ("/topics?sort=topic", "/topics?sort=topic"),
        ("//evil.example/", "/"),
        ("/\\evil.example/", "/"),
        ("https://evil.example/", "/"),
        ("/a\r\nset-cookie: x=y", "/"),
        ("", "/"),
    ],
)
def test_login_redirects_only_to_own_pages(wanted, page):
    assert way_back(wanted) == page


def test_console_serves_tls(cluster, tmp_path):
    certificates = Certificates()
    pem = tmp_path / "console.pem"
    pem.write_text("".join(certificates.server))
    login = ConsoleLogin(PASSWORD, is_secure=True)
    with console_before(cluster, login=login, tls=checked_tls(pem, None)) as asking:
        trusted = ssl.create_default_context(cadata=certificates.ca)
        secure = http.client.HTTPSConnection(*asking.base, context=trusted, timeout=30)
        with closing(secure) as connection:
            body = urlencode({"password": PASSWORD})
            connection.request("POST", "/login", body, {"Content-Type": FORM})
            answer = connection.getresponse()
            assert answer.status == 303
            assert answer.headers["set-cookie"].endswith("; Secure")
    pem.write_text(certificates.server[1])
    with pytest.raises(UserError, match="cannot serve TLS"):
        checked_tls(pem, None)
