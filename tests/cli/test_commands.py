"""The commands on a running cluster, through its API server, as a user meets them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from kai_ray.cluster import resources as R
from kai_ray.cluster.port import NotFound, Object
from kai_ray.sim.embedded import EmbeddedCluster

from .conftest import EXAMPLES, Kai

QUEUES = str(EXAMPLES / "queues.yaml")


def job(name: str, gpus: int, pods: int = 1, queue: str = "ads", run: str = "600s") -> str:
    """A batch Job as text; a gang of `pods`."""
    return yaml.safe_dump(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": name,
                "labels": {"kai.scheduler/queue": queue, "team": "blue"},
                "annotations": {"kai.scheduler/batch-min-member": str(pods)},
            },
            "spec": {
                "parallelism": pods,
                "completions": pods,
                "template": {
                    "metadata": {"annotations": {"kai.scheduler/sim-run-time": run}},
                    "spec": {
                        "restartPolicy": "Never",
                        "containers": [
                            {
                                "name": "main",
                                "image": "busybox",
                                "resources": {"limits": {"nvidia.com/gpu": gpus}},
                            }
                        ],
                    },
                },
            },
        }
    )


def row(table: str, name: str) -> dict[str, str]:
    """The cells of a table's row, by column."""
    header, *lines = table.splitlines()
    titles = re.split(r" {2,}", header)
    for line in lines:
        cells = re.split(r" {2,}", line)
        if cells[0] == name or (titles[0] == "NAMESPACE" and cells[1] == name):
            return dict(zip(titles, cells, strict=True))
    return {}


@pytest.fixture(scope="module", autouse=True)
def _queues(kai: Kai) -> None:
    kai.ok("submit", QUEUES)


@pytest.fixture(autouse=True)
def _emptied(cluster: EmbeddedCluster) -> Iterator[None]:
    """No test leaves workloads to the next."""
    yield
    for resource in (R.JOB, R.DEPLOYMENT):
        for obj in cluster.store.list(resource).items:
            with suppress(NotFound):  # the test's own deletion may be on its way
                cluster.store.delete(resource, obj["metadata"]["name"], "default")
    assert cluster.run_until(lambda: not cluster.store.list(R.POD).items, 10)


def test_queues_are_shown_as_a_tree_with_quotas(kai: Kai) -> None:
    table = kai.ok("get", "queues")
    assert row(table, "vision") | {"AGE": "", "FAIR-SHARE": ""} == {
        "NAME": "vision",
        "PARENT": "research",
        "QUOTA": "8",
        "ALLOC": "0",
        "FAIR-SHARE": "",
        "BORROWED": "0",
        "PENDING": "0",
        "PRIORITY": "100",
        "STATE": "Active",
        "AGE": "",
    }
    names = [line.split()[0] for line in table.splitlines()[1:]]
    assert names.index("research") < names.index("language") < names.index("vision")
    assert "default-queue" in names


def test_documents_are_the_objects_themselves(kai: Kai) -> None:
    listed = json.loads(kai.ok("get", "queues", "-o", "json"))
    assert listed["kind"] == "List"
    assert {"vision", "ads"} <= {q["metadata"]["name"] for q in listed["items"]}
    one = yaml.safe_load(kai.ok("get", "queue", "ads", "-o", "yaml"))
    assert (one["kind"], one["spec"]["parentQueue"]) == ("Queue", "product")


def test_names_can_be_given_back_to_kubectl(kai: Kai) -> None:
    assert kai.ok("get", "queues", "ads", "vision", "-o", "name").splitlines() == [
        "queue.scheduling.run.ai/ads",
        "queue.scheduling.run.ai/vision",
    ]
    assert "node/gpu-0" in kai.ok("get", "nodes", "-o", "name").splitlines()


def test_a_name_that_does_not_exist_ends_with_code_3(kai: Kai) -> None:
    for command in (
        ("get", "queues", "nobody"),
        ("get", "jobs", "nothing"),
        ("describe", "queue", "nobody"),
        ("describe", "node", "nowhere"),
        ("explain", "nothing"),
        ("job", "suspend", "nothing"),
        ("queue", "pause", "nobody"),
        ("queue", "set", "nobody", "--gpu", "1"),
        ("queue", "create", "orphan", "--parent", "nobody"),
    ):
        done = kai(*command)
        assert done.exit_code == 3, f"{command}: {done.output}"
        assert "next:" in done.stderr


def test_a_queue_from_its_creation_to_its_end(kai: Kai) -> None:
    kai.ok("queue", "create", "robots", "--parent", "research", "--gpu", "2", "--gpu-limit", "4")
    spec = json.loads(kai.ok("get", "queue", "robots", "-o", "json"))["spec"]
    assert spec["resources"]["gpu"] == {"quota": 2, "limit": 4, "overQuotaWeight": 1}
    assert spec["resources"]["cpu"]["limit"] == -1
    again = kai("queue", "create", "robots")
    assert again.exit_code == 4 and "kai queue set robots" in again.stderr
    kai.ok("queue", "set", "robots", "--gpu", "3", "--cpu", "1500m", "--memory", "2G")
    resources = json.loads(kai.ok("get", "queue", "robots", "-o", "json"))["spec"]["resources"]
    assert resources["gpu"] == {"quota": 3, "limit": 4, "overQuotaWeight": 1}
    assert (resources["cpu"]["quota"], resources["memory"]["quota"]) == (1500, 2000)
    assert kai("queue", "set", "robots").exit_code == 2
    wrong = kai("queue", "set", "robots", "--notify-on", "finished")
    assert wrong.exit_code == 2 and "'finished' is not one of started" in wrong.stderr
    kai.ok("queue", "set", "robots", "--notify", "ops", "--notify-after", "1h")
    kai.ok("queue", "set", "robots", "--notify-after", "")
    notes = json.loads(kai.ok("get", "queue", "robots", "-o", "json"))["metadata"]["annotations"]
    assert notes["kai.scheduler/notify"] == "ops"
    assert "kai.scheduler/notify-after" not in notes
    assert kai("queue", "delete", "research").exit_code == 4  # has queues below it
    kai.ok("queue", "delete", "robots")
    assert kai("get", "queue", "robots").exit_code == 3


def test_a_channel_that_may_be_unknown_is_told_of(
    kai: Kai, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAI_HOME", str(tmp_path))
    said = kai("queue", "create", "told", "--notify", "ops, https://chat.example.com/x, pagers")
    (note,) = said.stderr.splitlines()
    assert said.exit_code == 0 and note.startswith("note: channels ops, pagers must be named")
    assert "--notify FILE" in note and "kai run" in note
    # The `kai up` beside us says which channels it has.
    up = {"pid": os.getpid(), "kubeconfig": str(kai.file), "channels": ["ops"]}
    (tmp_path / "up.json").write_text(json.dumps(up))
    assert kai("queue", "set", "told", "--notify", "ops").stderr == ""
    missing = kai("queue", "set", "told", "--notify", "ops,ghost").stderr
    assert "channel ghost must be named" in missing and "ops" not in missing
    for nothing in ("none", "https://chat.example.com/x", ""):
        assert kai("queue", "set", "told", "--notify", nothing).stderr == ""
    assert kai("queue", "set", "told", "--gpu", "1").stderr == ""
    # It is another cluster that the command speaks to.
    (tmp_path / "other").write_text("{}")
    up = up | {"kubeconfig": str(tmp_path / "other")}
    (tmp_path / "up.json").write_text(json.dumps(up))
    assert "kai run" in kai("queue", "set", "told", "--notify", "ops").stderr
    kai.ok("queue", "delete", "told")


def test_a_dry_run_changes_nothing(kai: Kai) -> None:
    for how in ("client", "server"):
        kai.ok("queue", "create", "ghost", "--dry-run", how)
        kai.ok("submit", "-", "--dry-run", how, stdin=job("ghost", 1))
        assert kai("get", "queue", "ghost").exit_code == 3
        assert "ghost" not in kai.ok("get", "jobs")


def test_nodes_show_free_gpus_and_fold_into_ranges(kai: Kai) -> None:
    assert row(kai.ok("get", "nodes"), "gpu-3")["GPU"] == "8"
    folded = kai.ok("get", "nodes", "--fold")
    assert row(folded, "cpu-[0-1]")["NODES"] == "2"


def test_a_job_from_its_submission_to_its_end(kai: Kai) -> None:
    quick = job("quick", 2, 2, run="1s")
    said = kai.ok("submit", "-", "--wait=finished", "--timeout", "30", stdin=quick)
    assert "job.batch/quick created" in said
    shown = row(kai.ok("get", "jobs"), "quick")
    assert (shown["QUEUE"], shown["KIND"], shown["STATUS"]) == ("ads", "Job", "Succeeded")
    described = kai.ok("describe", "job", "quick")
    assert "Gangs:" in described and "Events:" in described
    assert "unchanged" in kai.ok("submit", "-", stdin=quick)
    kai.ok("job", "delete", "quick", "--wait")
    assert "quick" not in kai.ok("get", "jobs")


def test_a_job_that_waits_says_why_and_where_it_stands(kai: Kai) -> None:
    kai.ok("submit", "-", "--wait", "--timeout", "20", stdin=job("large", 8, 4))
    kai.ok("submit", "-", stdin=job("first", 8, 2))
    kai.ok("submit", "-", stdin=job("second", 8, 2))
    table = kai.eventually(lambda t: row(t, "first").get("REASON", "-") != "-", "get", "jobs")
    assert row(table, "large")["STATUS"] == "Running"
    waiting = row(table, "first")
    assert waiting["STATUS"] == "Waiting"
    assert waiting["POS"] == "1"
    table = kai.eventually(lambda t: row(t, "second").get("POS") == "2", "get", "jobs")
    explained = kai.ok("explain", "first")
    assert "GPU" in explained.splitlines()[0]
    document = json.loads(kai.ok("explain", "first", "-o", "json"))
    assert document["reason"] == waiting["REASON"]
    assert "Why it waits" in kai.ok("describe", "job", "first")
    assert row(kai.ok("get", "nodes"), "gpu-0")["FRAGMENT"] == "full"
    assert row(kai.ok("get", "queues"), "ads")["ALLOC"] == "32"
    kai.ok("job", "delete", "large")
    kai.eventually(lambda t: row(t, "first")["STATUS"] == "Running", "get", "jobs")
    kai.ok("job", "delete", "first", "second", "--wait")


def test_a_job_without_a_gang_is_known_by_its_name(kai: Kai, cluster: EmbeddedCluster) -> None:
    foreign = yaml.safe_load(job("foreign", 1))
    foreign["spec"]["template"]["spec"]["schedulerName"] = "other-scheduler"
    foreign["metadata"]["namespace"] = "default"
    cluster.store.create(R.JOB, foreign)
    assert "has no gang yet" in kai.ok("explain", "foreign")
    assert "no gang yet" in kai.ok("describe", "job", "foreign")
    assert "job/foreign deleted" in kai.ok("job", "delete", "foreign")


def test_a_suspended_job_gives_its_gpus_back_and_can_go_on(kai: Kai) -> None:
    kai.ok("submit", "-", "--wait", "--timeout", "20", stdin=job("pausing", 1))
    assert "suspended" in kai.ok("job", "suspend", "pausing")
    kai.eventually(lambda t: row(t, "pausing").get("STATUS") == "Suspended", "get", "jobs")
    kai.eventually(lambda t: row(t, "gpu-0")["FREE"] == "8", "get", "nodes", "gpu-0")
    assert "already" in kai.ok("job", "suspend", "pausing")
    kai.ok("job", "resume", "pausing")
    kai.eventually(lambda t: row(t, "pausing").get("STATUS") == "Running", "get", "jobs")
    kai.ok("job", "delete", "pausing", "--wait")


def test_a_paused_queue_starts_nothing_until_it_is_resumed(kai: Kai) -> None:
    kai.ok("queue", "pause", "search")
    assert row(kai.ok("get", "queues"), "search")["STATE"] == "Paused"
    kai.ok("submit", "-", "--queue", "search", stdin=job("patient", 1))
    table = kai.eventually(lambda t: row(t, "patient").get("REASON", "-") != "-", "get", "jobs")
    assert (row(table, "patient")["QUEUE"], row(table, "patient")["REASON"]) == (
        "search",
        "QueuePaused",
    )
    kai.ok("queue", "resume", "search")
    kai.eventually(lambda t: row(t, "patient").get("STATUS") == "Running", "get", "jobs")
    assert kai("queue", "delete", "search").exit_code == 4  # has jobs
    kai.ok("job", "delete", "patient", "--wait")


def test_jobs_are_selected_by_label_queue_and_status(kai: Kai) -> None:
    kai.ok("submit", "-", "--wait", "--timeout", "20", stdin=job("blue", 1))
    assert row(kai.ok("get", "jobs", "-l", "team=blue"), "blue")
    assert "blue" not in kai.ok("get", "jobs", "-l", "team!=blue")
    assert "blue" not in kai.ok("get", "jobs", "--queue", "vision")
    assert row(kai.ok("get", "jobs", "-A", "--status", "running"), "blue")["NAMESPACE"] == "default"
    assert kai("get", "jobs", "-l", "a b").exit_code == 1
    kai.ok("job", "delete", "job/blue", "--wait")


def test_a_watch_prints_what_changes(kai: Kai, cluster: EmbeddedCluster) -> None:
    from kai_ray.cli import watch

    waits = 0
    real = watch.Changes.wait

    def wait(self: watch.Changes) -> None:
        nonlocal waits
        waits += 1
        if waits == 1:
            cluster.store.patch(R.QUEUE, "ads", {"spec": {"priority": 120}})
        if waits == 3:
            raise KeyboardInterrupt
        real(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(watch.Changes, "wait", wait)
        patch.setattr(watch, "LATEST_S", 1.0)
        done = kai("get", "queues", "-w")
    seen = done.output.splitlines()
    assert done.exit_code == 130
    assert seen[0].startswith("NAME")
    assert [line for line in seen if line.startswith("ads ") and " 120 " in line]
    cluster.store.patch(R.QUEUE, "ads", {"spec": {"priority": None}})


def test_the_server_refuses_a_bad_queue_by_its_field(kai: Kai) -> None:
    bad: Object = {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": "bad"},
        "spec": {"resources": {"gpu": {"quota": -7}}},
    }
    done = kai("submit", "-", stdin=yaml.safe_dump(bad))
    assert done.exit_code == 1
    assert "spec.resources.gpu.quota" in done.stderr


def test_one_bad_object_does_not_keep_the_others_out(kai: Kai) -> None:
    lost = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: nowhere}}\n---\n"
    done = kai("submit", "-", stdin=lost + lost + job("good", 1))
    assert done.exit_code == 3
    assert "job.batch/good created" in done.stdout
    assert "kubectl create namespace nowhere" in done.stderr
    assert "2 of 3 objects were not submitted" in done.stderr


def test_an_unknown_kind_is_named(kai: Kai) -> None:
    done = kai("submit", "-", stdin="{apiVersion: x.io/v1, kind: Thing, metadata: {name: a}}")
    assert done.exit_code == 3
    assert "Thing of x.io/v1" in done.stderr


def test_a_field_of_somebody_else_is_a_conflict(kai: Kai, cluster: EmbeddedCluster) -> None:
    text = "{apiVersion: v1, kind: ConfigMap, metadata: {name: shared}, data: {a: '%s'}}"
    obj = yaml.safe_load(text % "theirs") | {}
    obj["metadata"]["namespace"] = "default"
    cluster.store.patch(
        R.CONFIG_MAP, "shared", obj, "default", patch_type="apply", field_manager="they"
    )
    done = kai("submit", "-", stdin=text % "ours")
    assert done.exit_code == 4 and "--force" in done.stderr
    assert "configured" in kai.ok("submit", "-", "--force", stdin=text % "ours")


def test_version_names_the_server(kai: Kai) -> None:
    facts = json.loads(kai.ok("version", "-o", "json"))
    assert facts["server"].startswith("https://127.0.0.1:")
    assert facts["kubernetes"].startswith("v1.")


def test_two_kinds_of_one_name_must_be_told_apart(kai: Kai) -> None:
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "twin"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "busybox"}]},
            },
        },
    }
    both = yaml.safe_dump(deployment) + "---\n" + job("twin", 1)
    kai.ok("submit", "-", "--wait", "--timeout", "20", stdin=both)
    done = kai("job", "delete", "twin")
    assert done.exit_code == 2 and "deployment/twin" in done.stderr
    # No field of a Deployment stops it: it is told by annotation, its pods are evicted and wait.
    assert "deployment/twin suspended" in kai.ok("job", "suspend", "deployment/twin")
    assert "deployment/twin resumed" in kai.ok("job", "resume", "deployment/twin")
    kai.ok("job", "delete", "deployment/twin", "job/twin", "--wait")


def test_crds_are_what_the_cluster_serves(kai: Kai, cluster: EmbeddedCluster) -> None:
    printed = list(yaml.safe_load_all(kai.ok("crds")))
    served = {o["metadata"]["name"]: o for o in cluster.store.list(R.CRD).items}
    assert {d["metadata"]["name"] for d in printed} <= set(served)
    for definition in printed:
        spec = served[definition["metadata"]["name"]]["spec"]
        assert {key: spec[key] for key in definition["spec"]} == definition["spec"]
    assert kai("crds", "nothing").exit_code == 3


def test_a_folder_of_manifests_is_submitted_as_a_whole(kai: Kai, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(job("one", 1))
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.yml").write_text(job("two", 1))
    (tmp_path / "notes.txt").write_text("no manifest")
    said = kai.ok("submit", str(tmp_path), "--queue", "vision", "--wait", "--timeout", "20")
    assert "job.batch/one created" in said and "job.batch/two created" in said
    assert row(kai.ok("get", "jobs"), "two")["QUEUE"] == "vision"
    kai.ok("job", "delete", "one", "two", "--wait")
