"""The server's certificate: made once, kept while it serves, private."""

from __future__ import annotations

import stat
from pathlib import Path

from kai_ray.cluster.rest import certificates

HOSTS = ("127.0.0.1", "localhost")


def test_files_are_kept_and_the_key_is_private(tmp_path: Path) -> None:
    first = certificates.ensure(tmp_path / "state", HOSTS)
    assert stat.S_IMODE(first.key.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700
    assert certificates.ensure(tmp_path / "state", HOSTS) == first
    assert not list((tmp_path / "state").glob("ca.key")), "the CA signs nothing else, ever"


def test_another_host_or_a_broken_file_makes_new_ones(tmp_path: Path) -> None:
    first = certificates.ensure(tmp_path, HOSTS)
    second = certificates.ensure(tmp_path, (*HOSTS, "::1"))
    assert second.ca_pem != first.ca_pem
    assert certificates.ensure(tmp_path, HOSTS).ca_pem == second.ca_pem, "it serves these too"
    second.certificate.write_text("nonsense")
    assert certificates.ensure(tmp_path, HOSTS).ca_pem != second.ca_pem
