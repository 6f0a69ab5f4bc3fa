"""Host names in configurations: addresses are used directly, names are resolved once, without blocking."""

import trio

from trimaran.node.listening import addresses
from trimaran.node.listening.addresses import AddressBook


async def test_name_is_resolved_once_for_all_waiters(monkeypatch, nursery):
    asked = []

    async def getaddrinfo(host, *_, **__):
        asked.append(host)
        if host != "known":
            raise OSError("no such host")
        return [(2, 1, 6, "", ("10.0.0.7", 0)), (2, 1, 6, "", ("10.0.0.7", 0))]

    monkeypatch.setattr(trio.socket, "getaddrinfo", getaddrinfo)
    book, told = AddressBook(), []
    book.changed.append(lambda: told.append(book.addresses("known")))
    nursery.start_soon(book.run)
    assert book.addresses("10.0.0.1") == ("10.0.0.1",)
    assert [book.addresses("unknown"), book.addresses("known")] == [(), ()]
    await trio.testing.wait_all_tasks_blocked()
    assert told == [("10.0.0.7",)]
    assert [book.addresses("unknown"), book.addresses("known")] == [(), ("10.0.0.7",)]
    await trio.testing.wait_all_tasks_blocked()
    assert asked == ["unknown", "known"]


async def test_number_of_remembered_names_is_bounded(monkeypatch, nursery):
    async def getaddrinfo(host, *_, **__):
        return [(2, 1, 6, "", ("10.0.0.7", 0))]

    monkeypatch.setattr(trio.socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(addresses, "NAMES_MAX", 2)
    book = AddressBook()
    nursery.start_soon(book.run)
    for name in ("a", "b", "c"):
        book.addresses(name)
        await trio.testing.wait_all_tasks_blocked()
    assert [book.addresses(name) for name in ("c", "b", "a")] == [("10.0.0.7",)] * 2 + [()]
