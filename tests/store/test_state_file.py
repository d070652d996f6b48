"""What a state file keeps, over a restart and over a kill."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from kai_ray.cluster import resources as r
from kai_ray.cluster.memory import MemoryStore, StateFileError, install_defaults
from kai_ray.cluster.port import Gone, NotFound, Object

GROUP: Object = {
    "metadata": {"name": "g", "namespace": "default"},
    "spec": {"minMember": 2, "queue": "default-queue"},
}


def test_a_restart_continues(tmp_path: Path) -> None:
    path = tmp_path / "state" / "store.db"
    store = MemoryStore(state_path=path)
    install_defaults(store)
    made = store.create(r.POD_GROUP, GROUP)
    store.create(r.CONFIG_MAP, {"metadata": {"name": "m", "namespace": "default"}})
    store.delete(r.CONFIG_MAP, "m", "default")
    version = store.version
    store.close()

    store = MemoryStore(state_path=path)
    assert store.version == version, "a deletion counts although nothing is left of it"
    assert store.get(r.POD_GROUP, "g", "default") == made
    with pytest.raises(NotFound):
        store.get(r.CONFIG_MAP, "m", "default")
    install_defaults(store)
    assert store.version == version, "what is installed stays as it is"
    patched = store.patch(r.POD_GROUP, "g", {"spec": {"minMember": 3}}, "default")
    assert int(patched["metadata"]["resourceVersion"]) == int(version) + 1
    store.close()


def test_watches_of_before_a_restart_are_gone_and_those_of_now_go_on(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = MemoryStore(state_path=path)
    install_defaults(store)
    before = store.version
    store.create(r.POD_GROUP, GROUP)
    now = store.version
    store.close()

    store = MemoryStore(state_path=path)
    with pytest.raises(Gone):
        store.watch(r.POD_GROUP, resource_version=before)
    watch = store.watch(r.POD_GROUP, resource_version=now)
    store.delete(r.POD_GROUP, "g", "default")
    event = watch.next()
    assert event is not None and event.type == "DELETED"
    store.close()


def test_owners_are_known_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = MemoryStore(state_path=path)
    install_defaults(store)
    owner = store.create(r.POD_GROUP, GROUP)
    ref = {"apiVersion": owner["apiVersion"], "kind": "PodGroup", "name": "g"}
    ref["uid"] = owner["metadata"]["uid"]
    meta = {"name": "m", "namespace": "default", "ownerReferences": [ref]}
    store.create(r.CONFIG_MAP, {"metadata": meta})
    store.close()

    store = MemoryStore(state_path=path)
    store.delete(r.POD_GROUP, "g", "default")
    with pytest.raises(NotFound):
        store.get(r.CONFIG_MAP, "m", "default")
    store.close()


def test_a_seeded_store_does_not_repeat_itself_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    meta = {"generateName": "m-", "namespace": "default"}
    uids: list[str] = []
    for _ in range(2):
        store = MemoryStore(state_path=path, seed=1)
        install_defaults(store)
        uids += [store.create(r.CONFIG_MAP, {"metadata": meta})["metadata"]["uid"] for _ in "abc"]
        store.close()
    assert len(set(uids)) == 6


WRITER = """
import sys
from kai_ray.cluster import resources as r
from kai_ray.cluster.memory import MemoryStore, install_defaults
store = MemoryStore(state_path=sys.argv[1])
install_defaults(store)
i = 0
while True:
    meta = {"name": f"m{i}", "namespace": "default"}
    made = store.create(r.CONFIG_MAP, {"metadata": meta, "data": {"i": str(i)}})
    if i % 3 == 2:
        store.delete(r.CONFIG_MAP, f"m{i - 1}", "default")
        print("deleted", i - 1, store.version, flush=True)
    print("created", i, made["metadata"]["resourceVersion"], flush=True)
    i += 1
"""


def test_a_kill_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    child = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    said: list[tuple[str, int, int]] = []
    for line in child.stdout:
        if len(said) == 300:
            os.kill(child.pid, signal.SIGKILL)
        if line.endswith("\n") and len(words := line.split()) == 3:
            said.append((words[0], int(words[1]), int(words[2])))
    child.wait()
    assert child.returncode == -signal.SIGKILL

    store = MemoryStore(state_path=path)
    names = {o["metadata"]["name"] for o in store.list(r.CONFIG_MAP, "default").items}
    gone = {i for word, i, _ in said if word == "deleted"}
    made = {i for word, i, _ in said if word == "created"} - gone
    assert {f"m{i}" for i in made} <= names
    assert not {f"m{i}" for i in gone} & names
    assert int(store.version) >= max(version for _, _, version in said)
    versions = {i: v for word, i, v in said if word == "created"}
    for i in made:
        found = store.get(r.CONFIG_MAP, f"m{i}", "default")
        assert found["data"] == {"i": str(i)}
        assert found["metadata"]["resourceVersion"] == str(versions[i])
    store.create(r.CONFIG_MAP, {"metadata": {"name": "after", "namespace": "default"}})
    store.close()


def test_a_file_of_another_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    MemoryStore(state_path=path).close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(StateFileError, match="format 99"):
        MemoryStore(state_path=path)


@pytest.mark.parametrize("content", [b"not a database at all, only text" * 100, None])
def test_a_file_that_is_not_ours_is_refused_and_kept(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "other.db"
    if content is None:
        with sqlite3.connect(path) as db:
            db.execute("CREATE TABLE precious (x)")
        db.close()
    else:
        path.write_bytes(content)
    before = path.read_bytes()
    with pytest.raises(StateFileError, match=str(path)):
        MemoryStore(state_path=path)
    assert path.read_bytes() == before


def test_two_stores_do_not_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    first = MemoryStore(state_path=path)
    with pytest.raises(StateFileError, match="another instance"):
        MemoryStore(state_path=path)
    first.close()
    MemoryStore(state_path=path).close()
