"""What only the store itself offers: bookmarks, admission, threads, bounds, repeatable names."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from kai_ray.cluster import resources as r
from kai_ray.cluster.clock import VirtualClock
from kai_ray.cluster.memory import MemoryStore, acting_as, install_defaults
from kai_ray.cluster.memory import log as log_module
from kai_ray.cluster.port import (
    AdmissionRequest,
    ApiError,
    BadRequest,
    Forbidden,
    Gone,
    NotFound,
    Object,
    Port,
)


def _store(**options: Any) -> MemoryStore:
    store = MemoryStore(**options)
    install_defaults(store)
    return store


def _config(name: str, **data: str) -> Object:
    return {"metadata": {"name": name, "namespace": "default"}, "data": data}


def _pod(name: str, **spec: Any) -> Object:
    containers = [{"name": "c", "image": "i:1"}]
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": containers, **spec},
    }


# --- bookmarks -----------------------------------------------------------------------------------


def test_initial_events_end_with_a_bookmark() -> None:
    store = _store()
    store.create(r.POD, _pod("a"))
    watch = store.watch(r.POD, initial_events=True)
    added, mark = watch.next(), watch.next()
    assert added is not None and added.type == "ADDED"
    assert mark is not None and mark.type == "BOOKMARK"
    meta = mark.object["metadata"]
    assert meta["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert meta["resourceVersion"] == store.version
    assert watch.next() is None


def test_a_quiet_watch_gets_bookmarks_that_keep_it_young(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "BOOKMARK_EVERY_S", 0.0)
    store = _store(history=4)
    watch = store.watch(r.POD, resource_version=store.version, bookmarks=True)
    for i in range(20):
        store.create(r.CONFIG_MAP, _config(f"c{i}"))
    mark = watch.next(0.01)
    assert mark is not None and mark.type == "BOOKMARK"
    assert mark.object["metadata"]["resourceVersion"] == store.version
    store.watch(r.POD, resource_version=mark.object["metadata"]["resourceVersion"])


# --- bounds --------------------------------------------------------------------------------------


def test_history_is_bounded_per_kind() -> None:
    store = _store(history=10)
    start = store.version
    for i in range(30):
        store.create(r.CONFIG_MAP, _config(f"c{i}"))
    with pytest.raises(Gone):
        store.watch(r.CONFIG_MAP, resource_version=start)
    store.watch(r.POD, resource_version=start)  # nothing happened to pods


def test_a_reader_that_never_reads_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "LONGEST_QUEUE", 10)
    store = _store()
    watch = store.watch(r.CONFIG_MAP, resource_version=store.version)
    for i in range(12):
        store.create(r.CONFIG_MAP, _config(f"c{i}"))
    with pytest.raises(Gone):
        watch.next()


def test_old_events_expire() -> None:
    clock = VirtualClock()
    store = _store(clock=clock)

    def event(name: str) -> Object:
        about = {"kind": "Pod", "name": "p", "namespace": "default"}
        return {"metadata": {"name": name, "namespace": "default"}, "involvedObject": about}

    store.create(r.EVENT, event("old"))
    clock.advance_to(clock.now() + 4000)
    for i in range(300):
        store.create(r.EVENT, event(f"new-{i}"))
    with pytest.raises(NotFound):
        store.get(r.EVENT, "old", "default")
    assert len(store.list(r.EVENT).items) == 300


def test_numbers_that_json_cannot_say_are_refused_by_field() -> None:
    store = _store()
    spec = {"resources": {"gpu": {"quota": float("nan")}}}
    with pytest.raises(BadRequest, match=r"spec\.resources\.gpu\.quota"):
        store.create(r.QUEUE, {"metadata": {"name": "q"}, "spec": spec})
    deep: Any = {}
    for _ in range(500):
        deep = {"x": deep}
    with pytest.raises(BadRequest, match="levels deep"):
        store.create(r.RAY_JOB, {"metadata": {"name": "j", "namespace": "default"}, "spec": deep})


def test_quantities_fit_sixty_four_bits() -> None:
    store = _store()
    for name, amount in (("memory", str(2**63)), ("cpu", str(2**54)), ("nvidia.com/gpu", "1e30")):
        containers = [{"name": "c", "image": "i", "resources": {"limits": {name: amount}}}]
        with pytest.raises(ApiError, match=name):
            store.create(r.POD, _pod("p", containers=containers))


# --- admission -----------------------------------------------------------------------------------


class Recorder:
    """Labels what it sees and refuses what is called `forbidden`."""

    resources = frozenset({r.POD})

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str]] = []

    def admit(self, request: AdmissionRequest, reader: Port) -> Object:
        obj = request.object
        self.seen.append((request.operation, obj["metadata"]["name"], request.user))
        if obj["metadata"]["name"] == "forbidden":
            raise Forbidden("not this one")
        if request.operation == "CREATE":
            reader.get(r.NAMESPACE, "default")
            obj["metadata"].setdefault("labels", {})["seen"] = "yes"
        return obj


def test_plugins_change_and_refuse_what_they_asked_for() -> None:
    plugin = Recorder()
    store = _store(admission=[plugin])
    with acting_as("alice"):
        made = store.create(r.POD, _pod("a"))
    assert made["metadata"]["labels"] == {"seen": "yes"}
    store.create(r.CONFIG_MAP, _config("m"))
    store.patch(r.POD, "a", {"metadata": {"labels": {"x": "y"}}}, "default")
    store.patch(r.POD, "a", {"status": {"phase": "Running"}}, "default", subresource="status")
    store.delete(r.POD, "a", "default")
    with pytest.raises(Forbidden):
        store.create(r.POD, _pod("forbidden"))
    assert plugin.seen == [
        ("CREATE", "a", "alice"),
        ("UPDATE", "a", "system:kai-ray"),
        ("DELETE", "a", "system:kai-ray"),
        ("CREATE", "forbidden", "system:kai-ray"),
    ]


def test_what_a_plugin_makes_is_still_checked() -> None:
    class Breaker:
        def admit(self, request: AdmissionRequest, reader: Port) -> Object:
            if request.resource == r.POD:
                request.object["spec"]["containers"] = []
            return request.object

    with pytest.raises(Exception, match="at least one container"):
        _store(admission=[Breaker()]).create(r.POD, _pod("a"))


# --- defaults of the server ----------------------------------------------------------------------


def test_a_job_selects_its_own_pods() -> None:
    store = _store()
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    job = {"metadata": {"name": "j", "namespace": "default"}, "spec": {"template": template}}
    made = store.create(r.JOB, job)
    uid = made["metadata"]["uid"]
    spec = made["spec"]
    assert (spec["parallelism"], spec["completions"], spec["backoffLimit"]) == (1, 1, 6)
    assert spec["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    labels = spec["template"]["metadata"]["labels"]
    assert labels["batch.kubernetes.io/controller-uid"] == labels["controller-uid"] == uid
    assert labels["job-name"] == "j"


def test_limits_become_requests_and_quality_of_service() -> None:
    store = _store()
    limits = {"cpu": "1", "memory": "1Gi"}
    containers = [{"name": "c", "image": "i", "resources": {"limits": limits}}]
    made = store.create(r.POD, _pod("p", containers=containers))
    assert made["spec"]["containers"][0]["resources"]["requests"] == limits
    assert made["status"] == {"phase": "Pending", "qosClass": "Guaranteed"}
    assert store.create(r.POD, _pod("q"))["status"]["qosClass"] == "BestEffort"


def test_a_fresh_cluster_holds_kais_classes_and_queues() -> None:
    store = _store()
    values = {c["metadata"]["name"]: c["value"] for c in store.list(r.PRIORITY_CLASS).items}
    assert values == {"train": 50, "build-preemptible": 75, "build": 100, "inference": 125}
    queue = store.get(r.QUEUE, "default-queue")["spec"]
    assert queue["parentQueue"] == "default-parent-queue"
    for part in queue["resources"].values():
        assert part == {"quota": 0, "limit": -1, "overQuotaWeight": 1}
    assert (
        store.get(r.NAMESPACE, "default")["metadata"]["labels"]["kai.scheduler/managed"] == "true"
    )


# --- threads and seeds ---------------------------------------------------------------------------


def test_many_threads_lose_no_write() -> None:
    store = _store()
    store.create(r.CONFIG_MAP, _config("shared", count="0"))
    watch = store.watch(r.CONFIG_MAP, resource_version=store.version)

    def work(who: int) -> None:
        for i in range(50):
            store.create(r.CONFIG_MAP, _config(f"w{who}-{i}"))
            store.patch(r.CONFIG_MAP, "shared", {"data": {f"k{who}": str(i)}}, "default")

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    shared = store.get(r.CONFIG_MAP, "shared", "default")["data"]
    assert shared == {"count": "0"} | {f"k{i}": "49" for i in range(6)}
    versions = []
    while (event := watch.next()) is not None:
        versions.append(int(event.object["metadata"]["resourceVersion"]))
    assert versions == sorted(set(versions))
    assert len(versions) == 600


def test_a_waiting_reader_wakes_for_an_event_and_for_the_end() -> None:
    store = _store()
    watch = store.watch(r.CONFIG_MAP, resource_version=store.version)
    timer = threading.Timer(0.05, store.create, (r.CONFIG_MAP, _config("m")))
    timer.start()
    event = watch.next(10)
    assert event is not None and event.object["metadata"]["name"] == "m"
    start = time.monotonic()
    closer = threading.Timer(0.05, store.close)
    closer.start()
    assert watch.next(10) is None
    assert time.monotonic() - start < 5


def test_a_seed_makes_names_repeatable() -> None:
    def run() -> list[Object]:
        store = _store(seed=7, clock=VirtualClock())
        meta = {"generateName": "p-", "namespace": "default"}
        for _ in range(5):
            store.create(r.POD, {**_pod("x"), "metadata": meta})
        return store.list(r.POD).items

    assert run() == run()


def test_a_collection_is_deleted_by_selector() -> None:
    store = _store()
    for name, team in (("a", "red"), ("b", "blue"), ("c", "red")):
        obj = _config(name)
        obj["metadata"]["labels"] = {"team": team}
        store.create(r.CONFIG_MAP, obj)
    gone = store.delete_collection(r.CONFIG_MAP, "default", labels="team=red")
    assert [o["metadata"]["name"] for o in gone] == ["a", "c"]
    left = [o["metadata"]["name"] for o in store.list(r.CONFIG_MAP, "default").items]
    assert left == ["b", "kube-root-ca.crt"]


def test_ten_thousand_pods_are_made_and_bound_in_seconds() -> None:
    store = _store()
    start = time.process_time()
    for i in range(10_000):
        store.create(r.POD, _pod(f"p{i}"))
    for i in range(10_000):
        store.bind("default", f"p{i}", "n1", annotations={"pod-group-name": "g"})
    assert time.process_time() - start < 10, "about one second of a quiet core"


@pytest.mark.parametrize("text", ["x" * 1_000_000, "a." * 500_000, "a-" * 500_000 + "!"])
def test_names_of_a_megabyte_are_refused_in_no_time(text: str) -> None:
    store = _store()
    bad = [
        {**_config("m"), "metadata": {"name": text, "namespace": "default"}},
        {**_config("m"), "metadata": {"name": "m", "namespace": "default", "labels": {text: "x"}}},
        {**_config("m"), "metadata": {"name": "m", "namespace": "default", "labels": {"x": text}}},
        {"metadata": {"name": "q"}, "spec": {"parentQueue": text, "resources": {}}},
        _pod("p", nodeName=text),
        _pod("p", containers=[{"name": text, "image": "i"}]),
        _pod("p", containers=[{"name": "c", "image": "i", "resources": {"limits": {"cpu": text}}}]),
    ]
    start = time.process_time()
    for obj in bad:
        kind = r.POD if "containers" in obj.get("spec", {}) else r.CONFIG_MAP
        with pytest.raises(ApiError) as refused:
            store.create(r.QUEUE if "parentQueue" in obj.get("spec", {}) else kind, obj)
        assert len(refused.value.message) < 2_000
    assert time.process_time() - start < 2
