"""Which addresses are spoken to: users name them, and we stand inside the network."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_ray.sight.notify.address import AddressError, is_public, judged, label, places
from kai_ray.sight.notify.config import Channel, NotifyConfig, NotifyConfigError, load, parse


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("http://hooks.example.com/x", "only https"),
        ("ftp://hooks.example.com/x", "https"),
        ("https:///path", "https"),
        ("https://user:pw@example.com/", "names a user"),
        ("https://example.com:99999/", "cannot be read"),
        ("https://example.com/a b", "spaces"),
        ("https://example.com/\r\nHost: other", "spaces"),
        ("https://exämple.com/", "ASCII"),
        ("https://[::1/", "cannot be read"),
        ("https://example.com/" + "x" * 3000, "too long"),
        ("", "spaces"),
    ],
)
def test_an_address_of_the_wrong_form_is_refused(url: str, word: str) -> None:
    with pytest.raises(AddressError, match=word):
        judged(url)


@pytest.mark.parametrize(
    "ip",
    [
        "127.0.0.1",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "fe80::1",
        "fe80::1%eth0",
        "fc00::1",
        "::ffff:10.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "2002:a9fe:a9fe::1",
        "ff02::1",
    ],
)
def test_a_name_that_leads_inside_is_not_followed(ip: str) -> None:
    address = judged("https://innocent.example.com/x")
    with pytest.raises(AddressError, match="inside the network"):
        places(address, lambda host, port: [ip])
    trusted = judged("https://innocent.example.com/x", ["innocent.example.com"])
    assert places(trusted, lambda host, port: [ip]) == [ip]


@pytest.mark.parametrize("ip", ["93.184.216.34", "2606:4700::1111", "64:ff9b::5db8:d822"])
def test_public_places_are_spoken_to(ip: str) -> None:
    address = judged("https://hooks.example.com/x?y=z")
    assert places(address, lambda host, port: ["10.0.0.1", ip]) == [ip]
    assert (address.host, address.port, address.path) == ("hooks.example.com", 443, "/x?y=z")


def test_an_address_given_as_a_number_is_judged_alike() -> None:
    for host in ("127.0.0.1", "2130706433", "0x7f.1", "[::1]", "localhost"):
        with pytest.raises((AddressError, OSError)):
            places(judged(f"https://{host}/"))


@pytest.mark.parametrize(
    ("entry", "url", "trusted"),
    [
        ("chat.local", "http://chat.local:8065/hooks/1", True),
        ("chat.local", "http://CHAT.local./hooks", True),
        ("chat.local:8065", "http://chat.local:8065/", True),
        ("chat.local:8065", "http://chat.local/", False),
        ("*.corp.example", "http://chat.corp.example/", True),
        ("*.corp.example", "http://corp.example/", False),
        ("*.corp.example", "http://evilcorp.example/", False),
        ("chat.local", "http://chat.local.evil.example/", False),
        ("[fd00::1]", "http://[fd00::1]:80/", True),
    ],
)
def test_hosts_that_the_operator_lists(entry: str, url: str, trusted: bool) -> None:
    try:
        assert judged(url, [entry]).trusted == trusted
    except AddressError:
        assert not trusted


def test_what_is_shown_of_an_address_is_never_its_path() -> None:
    assert label("https://hooks.slack.com/services/T0/B0/secret") == "hooks.slack.com"
    assert label("http://chat.local:8065/secret") == "chat.local:8065"
    assert label("https://u:secret@h/") == "an address"


@given(st.ip_addresses(v=4))
def test_no_wrapping_makes_an_address_public(ip: object) -> None:
    assert is_public(f"::ffff:{ip}") == is_public(str(ip))


# The operator's file.


def test_a_file_names_channels_and_hosts(tmp_path: Path) -> None:
    file = tmp_path / "notify.yaml"
    file.write_text(
        "channels:\n  ops: https://hooks.slack.com/services/X\n"
        "  team-a: {urlFile: /run/secrets/team-a}\n"
        "hosts: [Chat.local:8065, '*.corp.example']\naddresses: false\nconsole: https://kai.local/\n"
    )
    assert load(file) == NotifyConfig(
        {
            "ops": Channel("https://hooks.slack.com/services/X"),
            "team-a": Channel(url_file="/run/secrets/team-a"),
        },
        ("chat.local:8065", "*.corp.example"),
        False,
        "https://kai.local",
    )
    assert parse(None) == NotifyConfig()


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ([], "not a map"),
        ({"chanels": {}}, "unknown field 'chanels': write one of channels"),
        ({"channels": {"Ops": "https://x"}}, "'Ops' is not a name"),
        ({"channels": {"none": "https://x"}}, "'none' is not a name"),
        ({"channels": {"ops": {}}}, "neither url nor urlFile"),
        ({"channels": {"ops": {"url": "https://x", "urlFile": "y"}}}, "or both"),
        ({"channels": {"ops": {"url": 5}}}, "channels.ops.url: 5 is not text"),
        ({"channels": {"ops": {"uri": "x"}}}, "unknown field 'uri'"),
        ({"hosts": "chat"}, "hosts: is not a list"),
        ({"hosts": ["https://chat"]}, "is not a host"),
        ({"addresses": "no"}, "neither true nor false"),
        ({"console": "kai.local"}, "is not an address"),
    ],
)
def test_a_file_that_cannot_be_used_says_what_to_mend(raw: object, words: str) -> None:
    with pytest.raises(NotifyConfigError, match=words.replace("*", "[*]")):
        parse(raw)


def test_a_file_that_is_none(tmp_path: Path) -> None:
    for text in (b"{", b"\x00\xff", b"a: &a [*a]", b"x" * (1 << 21)):
        (tmp_path / "f").write_bytes(text)
        with pytest.raises(NotifyConfigError, match="f: "):
            load(tmp_path / "f")
    with pytest.raises(NotifyConfigError, match="No such file"):
        load(tmp_path / "absent")
