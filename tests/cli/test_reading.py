"""What the command line takes: manifests, amounts, kubeconfigs; and what it says to bad ones."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from kai_ray.cli import failures
from kai_ray.cli.amounts import Amount
from kai_ray.cli.root import COMMANDS, root
from kai_ray.cluster import port as api
from kai_ray.sdk import clusters, errors, manifests
from kai_ray.sdk.applying import runs_pods


@pytest.fixture(autouse=True)
def _no_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("KUBECONFIG", "KAI_KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KAI_HOME", str(tmp_path / "kai"))


def kai(*args: str) -> Result:
    return CliRunner().invoke(root, list(args))


def test_lists_are_taken_apart_and_empty_documents_left_out(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(
        "---\n---\napiVersion: v1\nkind: List\nitems:\n"
        "- {apiVersion: v1, kind: Pod, metadata: {name: a}}\n"
        "- {apiVersion: v1, kind: Pod, metadata: {generateName: b-}}\n"
    )
    found = manifests.read([str(tmp_path)])
    assert [d.object["metadata"] for d in found] == [{"name": "a"}, {"generateName": "b-"}]
    assert {d.file for d in found} == {str(file)}


def test_plan_shows_what_can_be_read_beside_files_that_cannot(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: [")
    (tmp_path / "b.yaml").write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: b}\nspec: {containers: [{name: c}]}\n"
    )
    (tmp_path / "c.json").write_text('{"a": ')
    seen = kai("plan", str(tmp_path), "-o", "json")
    assert seen.exit_code == failures.FAILED
    assert [w["name"] for w in json.loads(seen.stdout)] == ["b"]
    assert "a.yaml" in seen.stderr
    assert "c.json" in seen.stderr

    alone = kai("plan", str(tmp_path / "a.yaml"), "-o", "json")
    assert (alone.exit_code, json.loads(alone.stdout)) == (failures.FAILED, [])


def test_dates_and_times_stay_text_as_kubernetes_tools_read_them(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_bytes(
        "\ufeffapiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
        "data: {day: 2024-01-01, at: 10:30, equals: =, n: 7, f: 1.5}\n".encode()
    )
    (found,) = manifests.read([str(file)])
    expected = {"day": "2024-01-01", "at": "10:30", "equals": "=", "n": 7, "f": 1.5}
    assert found.object["data"] == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: [", "not YAML or JSON"),
        ('{"a": ', "not YAML or JSON"),
        ("a: b: c", "line 1"),
        ("- 1\n", "no object"),
        ("kind: Pod\n", "no apiVersion"),
        ("apiVersion: v1\nkind: 7\n", "no kind"),
        ("apiVersion: v1\nkind: Pod\n", "no metadata.name"),
        ("apiVersion: v1\nkind: Pod\nmetadata: [a]\n", "no metadata.name"),
        ("\x00", "not YAML or JSON"),
        ("a: &a [*a]\n", "no apiVersion"),
    ],
)
def test_a_malformed_manifest_is_named_with_its_fault(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(text)
    with pytest.raises(errors.InvalidManifest) as caught:
        manifests.read([str(file)])
    assert "bad.yaml" in str(caught.value)
    assert says in str(caught.value)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_bytes(b"\xff\xfe\x00a")
    with pytest.raises(errors.InvalidManifest, match="utf-8"):
        manifests.read([str(file)])


def test_a_missing_file_ends_with_code_3() -> None:
    assert kai("submit", "nowhere.yaml").exit_code == failures.MISSING


@pytest.mark.parametrize(
    ("resource", "text", "value"),
    [
        ("gpu", "8", 8),
        ("gpu", "0.5", 0.5),
        ("gpu", "unlimited", -1),
        ("gpu", "-1", -1),
        ("cpu", "2", 2000),
        ("cpu", "1500m", 1500),
        ("memory", "64G", 64000),
        ("memory", "1Gi", 2**30 / 1e6),
        ("memory", "0", 0),
    ],
)
def test_amounts_are_stored_in_the_queues_units(resource: str, text: str, value: float) -> None:
    assert Amount(resource).convert(text, None, None) == pytest.approx(value)


@pytest.mark.parametrize(
    ("resource", "text", "says"),
    [
        ("gpu", "-2", "negative"),
        ("gpu", "NaN", "finite"),
        ("gpu", "many", "not a quantity"),
        ("memory", "64", "no unit"),
        ("cpu", "1e400", "too large"),
    ],
)
def test_amounts_that_mean_nothing_are_refused(resource: str, text: str, says: str) -> None:
    with pytest.raises(click.BadParameter, match=says):
        Amount(resource).convert(text, None, None)


def test_a_kubeconfig_is_looked_for_in_the_documented_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(errors.NoCluster, match="no cluster to talk to"):
        clusters.choose(None)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert clusters.choose(None).origin == "the pod's service account"
    own = tmp_path / ".kube" / "config"
    own.parent.mkdir()
    own.write_text("{}")
    assert clusters.choose(None).origin == "~/.kube/config"
    running = tmp_path / "kai" / "kubeconfig"
    running.parent.mkdir()
    running.write_text("{}")
    note = {"pid": os.getpid(), "kubeconfig": str(running)}
    (tmp_path / "kai" / "up.json").write_text(json.dumps(note))
    assert clusters.choose(None) == clusters.Choice(str(running), "kai up")
    monkeypatch.setenv("KUBECONFIG", "a:b")
    assert clusters.choose(None) == clusters.Choice("", "$KUBECONFIG")
    monkeypatch.setenv("KAI_KUBECONFIG", "c")
    assert clusters.choose(None) == clusters.Choice("c", "$KAI_KUBECONFIG")
    assert clusters.choose(str(own)) == clusters.Choice(str(own), "--kubeconfig")


@pytest.mark.parametrize("text", ["", "[]", '{"pid": "x"}', '{"pid": 999999999}', "{"])
def test_word_of_a_cluster_that_is_gone_is_not_believed(tmp_path: Path, text: str) -> None:
    (tmp_path / "kai").mkdir()
    (tmp_path / "kai" / "up.json").write_text(text)
    assert clusters.running_cluster() is None


def test_without_a_cluster_the_next_command_is_named() -> None:
    done = kai("get", "queues")
    assert done.exit_code == failures.FAILED
    assert "next: kai up" in done.stderr


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (api.NotFound("x"), failures.MISSING),
        (api.Conflict("x"), failures.CONFLICT),
        (api.AlreadyExists("x"), failures.CONFLICT),
        (api.Forbidden("x"), failures.FAILED),
        (api.Unavailable("x"), failures.FAILED),
    ],
)
def test_refusals_of_the_api_become_exit_codes(error: api.ApiError, code: int) -> None:
    assert failures.from_api(error).exit_code == code


def test_a_refusal_names_the_fields_that_are_wrong() -> None:
    causes = [{"field": "spec.quota", "message": "must be >= -1", "reason": "FieldValueInvalid"}]
    failure = failures.from_api(api.Invalid("queue is invalid", details={"causes": causes}))
    assert "spec.quota: must be >= -1" in failure.message


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str) -> None:
    done = kai(name, "--help")
    assert done.exit_code == 0, done.output
    assert "Usage:" in done.output


def test_a_typing_error_ends_with_code_2() -> None:
    assert kai("gte", "queues").exit_code == failures.USAGE
    assert kai("get", "queues", "-o", "xml").exit_code == failures.USAGE
    assert kai("up", "--nodes", "4x8", "--cluster", "x").exit_code == failures.USAGE
    assert kai("up", "--nodes", "many").exit_code == failures.USAGE
    assert kai("--kubeconfig", "nowhere", "get", "jobs").exit_code == failures.USAGE


@pytest.mark.parametrize(
    ("api_version", "kind", "answer"),
    [
        ("v1", "Pod", True),
        ("v1", "ConfigMap", False),
        ("batch/v1", "Job", True),
        ("ray.io/v1", "RayJob", True),
        ("example.com/v1", "Training", True),
        ("scheduling.run.ai/v2", "Queue", False),
        ("trainer.kubeflow.org/v1alpha1", "ClusterTrainingRuntime", False),
        ("trainer.kubeflow.org/v1alpha1", "TrainJob", True),
        ("rbac.authorization.k8s.io/v1", "Role", False),
    ],
)
def test_only_what_runs_pods_gets_a_queue(api_version: str, kind: str, answer: bool) -> None:
    assert runs_pods({"apiVersion": api_version, "kind": kind}) is answer
