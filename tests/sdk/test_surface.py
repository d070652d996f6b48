"""What `import kai_ray` costs and shows: names when they are used, tables where they are shown."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from dataclasses import dataclass, field
from datetime import datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, ClassVar

import pytest

import kai_ray
from benchmarks import import_time
from kai_ray.sdk import reference
from kai_ray.sdk.client import Client
from kai_ray.sdk.objects import manifests_of

from .conftest import EXAMPLES
from .served import ROOT, served

HEAVY = ["numpy", "yaml", "urllib3", "kubernetes", "rich", "click", "starlette", "asyncio", "grpc"]


def modules_after(code: str) -> set[str]:
    program = f"import sys\n{code}\nprint(*[m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, cwd=ROOT
    )
    return set(done.stdout.split())


def test_importing_kai_ray_loads_nothing_heavy() -> None:
    assert modules_after("import kai_ray") == set()
    assert modules_after("import kai_ray\nkai_ray.RayJob('a', 'b').manifest()") == set()
    assert modules_after("import kai_ray\nkai_ray.labels(queue='a')") == set()
    assert modules_after("import kai_ray\nkai_ray.connect") <= {"urllib3"}


def test_the_import_is_measured() -> None:
    figures = import_time.measure({"starts": 1})
    assert set(import_time.PROGRAMS) <= set(figures)
    assert "import_ms" in import_time.table(figures)
    assert figures["import_ms"] < figures["goal_ms"]


def test_every_name_is_there_and_no_other() -> None:
    assert set(kai_ray.__all__) == set(kai_ray._HOMES)
    assert set(kai_ray.__all__) <= set(dir(kai_ray))
    with pytest.raises(AttributeError, match="no attribute 'submitt'"):
        _ = kai_ray.submitt  # type: ignore[attr-defined]


TYPED = """
import kai_ray
kai = kai_ray.connect()
job: kai_ray.Job = kai.submit({}, queue="vision", min_workers=2)
word: str = job.wait(60, until="started").status
kai.submit({}, min_worker=2)  # wrong
job.wait(until="running")  # wrong
kai_ray.RayJob("name")  # wrong
kai.queue("vision").set(gpus=4)  # wrong
kai_ray.conect()  # wrong
"""


@pytest.mark.slow
def test_a_type_checker_finds_what_is_misspelt(tmp_path: Path) -> None:
    assert (ROOT / "kai_ray" / "py.typed").exists()
    (tmp_path / "pipeline.py").write_text(TYPED.lstrip())
    done = subprocess.run(
        [str(Path(sys.executable).with_name("pyright")), "--outputjson", "pipeline.py"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    found = json.loads(done.stdout)["generalDiagnostics"]
    wrong = [n for n, line in enumerate(TYPED.lstrip().splitlines()) if "# wrong" in line]
    assert sorted({d["range"]["start"]["line"] for d in found}) == wrong, found


def test_the_reference_is_what_the_docstrings_say() -> None:
    page = (ROOT / "docs" / "sdk-reference.md").read_text()
    assert page == reference.reference(), "make reference"


# ---------------------------------------------------------------------- as it is shown


class Text(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.cells: list[str] = []
        self.feed(page)
        self.close()

    def handle_data(self, data: str) -> None:
        self.cells.append(data)


def test_notebooks_show_tables_and_escape_what_users_wrote(kai: Client) -> None:
    kai.queue("vision").pause()
    job = kai.submit(kai_ray.BatchJob("shown", image="busybox", gpus=1), queue="vision")
    job.wait(until="decided")
    row = Text(job._repr_html_()).cells
    assert {"shown", "vision", "Waiting", "QueuePaused", "1"} <= set(row)
    assert "Paused" in Text(kai.queue("vision")._repr_html_()).cells
    assert Text(kai.queues()._repr_html_()).cells.count("research") == 3
    assert "QueuePaused" in job.explain()._repr_html_()
    evil = kai_ray.Explanation("Job", "n", "x", "", "", "", "", None, ("<script>x",), ())
    assert "<script>" not in evil._repr_html_()
    assert "Unschedulable" in Text(job.events()._repr_html_()).cells


def test_the_words_for_people_do_not_ask_the_cluster(kai: Client) -> None:
    job = kai.submit(kai_ray.BatchJob("quiet", image="busybox", gpus=1), queue="vision")
    assert repr(job) == "Job(job/quiet in default)"
    assert job.status == "Submitted"
    kai.wait([job])
    assert repr(job) == "Job(job/quiet in default: Succeeded)"
    assert repr(kai) == "Client(namespace default, cluster of this test)"
    assert re.fullmatch(
        r"Queue\(vision: [01] GPUs allocated, quota 8, Active\)", str(kai.queue("vision"))
    )
    assert str(kai.jobs()).splitlines()[0].split()[:3] == ["NAME", "KIND", "QUEUE"]


def test_a_bar_a_job_on_a_terminal(tmp_path: Path) -> None:
    program = (
        "import kai_ray\n"
        "kai = kai_ray.connect()\n"
        "both = [kai_ray.BatchJob(n, image='i', gpus=1, pods=2) for n in ('one', 'two')]\n"
        "kai.wait(kai.submit_all(both, queue='vision'), timeout=60)\n"
    )
    with served(tmp_path) as world:
        ours, theirs = pty.openpty()
        env = os.environ | {"KAI_KUBECONFIG": str(world.kubeconfig), "TERM": "xterm"}
        env.pop("NO_COLOR", None)
        process = subprocess.Popen(
            [sys.executable, "-c", program], stderr=theirs, env=env | {"COLUMNS": "120"}
        )
        os.close(theirs)
        shown = b""
        try:
            while chunk := os.read(ours, 4096):
                shown += chunk
        except OSError:  # the terminal is closed
            pass
        assert process.wait(60) == 0
    text = shown.decode()
    for words in ("job/one", "job/two", "2/2", "Succeeded"):
        assert words in text


def test_a_pipe_gets_no_bars(capfd: pytest.CaptureFixture[str], kai: Client) -> None:
    kai.submit(kai_ray.BatchJob("piped", image="busybox"), queue="vision").wait()
    assert capfd.readouterr().err == ""


# ---------------------------------------------------------------------- what may be submitted

POD: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}


@dataclass
class Generated:
    """As OpenAPI's generator writes models: kubernetes, kubeflow-training."""

    openapi_types: ClassVar[dict[str, str]] = {}
    attribute_map: ClassVar[dict[str, str]] = {
        "api_version": "apiVersion",
        "kind": "kind",
        "metadata": "metadata",
        "run_policy": "runPolicy",
    }
    api_version: str = "v1"
    kind: str = "Pod"
    metadata: dict[str, Any] = field(default_factory=lambda: {"name": "p"})
    run_policy: Any = None


class Pydantic:
    def model_dump(self, **how: Any) -> dict[str, Any]:
        assert how == {"mode": "json", "by_alias": True, "exclude_none": True}
        return dict(POD)


class Raw:
    """As kr8s and pykube hold theirs."""

    raw: ClassVar[dict[str, Any]] = POD


@pytest.mark.parametrize(
    "what",
    [
        POD,
        [POD],
        (Raw(),),
        Generated(),
        Pydantic(),
        Raw(),
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n",
        '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}',
        {"apiVersion": "v1", "kind": "PodList", "items": [POD]},
    ],
)
def test_whatever_holds_a_manifest_is_taken(what: Any) -> None:
    assert manifests_of(what) == [POD]


def test_counts_that_became_floats_on_their_way_are_counts_again() -> None:
    (made,) = manifests_of(POD | {"spec": {"replicas": 2.0, "share": 0.5, "on": [True, 3.0]}})
    assert manifests_of(POD | {"at": datetime(2026, 1, 1)})[0]["at"] == "2026-01-01T00:00:00"
    spec = made["spec"]
    assert spec == {"replicas": 2, "share": 0.5, "on": [True, 3]}
    assert [type(v) for v in (spec["replicas"], *spec["on"])] == [int, bool, int]


def test_what_kuberays_own_client_builds_is_taken_as_it_is(kai: Client) -> None:
    """Its builder leaves out what KubeRay does not need, and asks for no GPU and no minimum."""
    image = {"image": "rayproject/ray:2.48.0"}
    built = {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": "built", "namespace": "default", "labels": {"team": "ml"}},
        "spec": {
            "entrypoint": "python train.py",
            "submissionMode": "K8sJobMode",
            "shutdownAfterJobFinishes": True,
            "rayClusterSpec": {
                "rayVersion": "2.48.0",
                "headGroupSpec": {
                    "rayStartParams": {"dashboard-host": "0.0.0.0"},
                    "template": {"spec": {"containers": [{"name": "ray-head", **image}]}},
                },
                "workerGroupSpecs": [
                    {
                        "groupName": "default-worker",
                        "replicas": 2,
                        "minReplicas": 0,
                        "maxReplicas": 4,
                        "template": {"spec": {"containers": [{"name": "ray-worker", **image}]}},
                    }
                ],
            },
        },
    }

    class Builder:
        def to_dict(self) -> dict[str, Any]:
            return built

    job = kai.submit(Builder(), queue="vision", min_workers=1, gpu_fraction=0.5)
    assert job.wait(120).status == "Succeeded"
    assert job.manifest["metadata"]["labels"] == {"team": "ml", "kai.scheduler/queue": "vision"}


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ({"metadata": {"name": "x"}}, "an object has no apiVersion"),
        ({"apiVersion": "v1", "metadata": {"name": "x"}}, "an object has no kind"),
        ({"apiVersion": "v1", "kind": "Pod"}, "no metadata.name"),
        ({"apiVersion": "v1", "kind": "Pod", "metadata": []}, "no metadata.name"),
        ("a: [\n", "not YAML or JSON"),
        ("- 1\n- 2\n", "no object to submit"),
        ([], "no object to submit"),
        ([1], "a int cannot be submitted"),
        (object(), "a object cannot be submitted"),
        (None, "a NoneType cannot be submitted"),
        (str(EXAMPLES / "README.md"), "README.md"),
    ],
)
def test_what_is_no_manifest_is_refused(what: Any, says: str) -> None:
    with pytest.raises(kai_ray.InvalidManifest, match=says):
        manifests_of(what)


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(kai_ray.NotFound, match=r"nowhere.yaml: no such file"):
        manifests_of("nowhere.yaml")
