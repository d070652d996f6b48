"""What kubectl changes: apply, create, replace, patch, label, scale, delete, wait."""

from __future__ import annotations

import threading
import time

import pytest

from kai_ray.cluster import resources as r

from .conftest import Kubectl

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def config_map(name: str, **data: str) -> dict:
    about = {"name": name}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "data": data}


def soon(check, seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if check():
            return True
        time.sleep(0.05)
    return False


def test_apply_creates_changes_and_leaves_alone(kubectl: Kubectl, pod) -> None:
    two = pod("p", "one", "two", app="x")
    assert kubectl("apply", "-f", "-", stdin=two) == "pod/p created\n"
    assert kubectl("apply", "-f", "-", stdin=two) == "pod/p unchanged\n"
    two["metadata"]["labels"] = {"tier": "web"}
    two["spec"]["containers"][0]["image"] = "registry.example/one:2"
    assert kubectl("apply", "-f", "-", stdin=two) == "pod/p configured\n"
    now = kubectl.json("get", "pod", "p")
    assert now["metadata"]["labels"] == {"tier": "web"}, "a label no longer named is removed"
    images = [c["image"] for c in now["spec"]["containers"]]
    assert images == ["registry.example/one:2", "registry.example/two:1"]


def test_apply_removes_a_list_item_by_its_key(kubectl: Kubectl) -> None:
    def deployment(*containers: str) -> dict:
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "d"},
            "spec": {
                "selector": {"matchLabels": {"a": "b"}},
                "template": {
                    "metadata": {"labels": {"a": "b"}},
                    "spec": {"containers": [{"name": c, "image": c} for c in containers]},
                },
            },
        }

    kubectl("apply", "-f", "-", stdin=deployment("one", "two", "three"))
    kubectl("apply", "-f", "-", stdin=deployment("three", "one"))
    path = "jsonpath={.spec.template.spec.containers[*].name}"
    assert kubectl("get", "deploy", "d", "-o", path) == "three one"


def test_server_side_apply_finds_conflicts(kubectl: Kubectl) -> None:
    def apply(manager: str, value: str, *extra: str, ok: bool = True) -> str:
        args = ("apply", "--server-side", "--field-manager", manager, *extra, "-f", "-")
        return kubectl(*args, stdin=config_map("cm", a=value), ok=ok)

    assert apply("alice", "1") == "configmap/cm serverside-applied\n"
    assert apply("alice", "2") == "configmap/cm serverside-applied\n"
    said = apply("bob", "3", ok=False)
    assert 'conflict with "alice"' in said and ".data.a" in said
    apply("bob", "3", "--force-conflicts")
    assert kubectl.json("get", "cm", "cm")["data"] == {"a": "3"}
    managers = kubectl("get", "cm", "cm", "--show-managed-fields", "-o", "yaml")
    assert "manager: bob" in managers


def test_create_replace_and_their_refusals(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=config_map("cm", a="1"))
    assert "already exists" in kubectl("create", "-f", "-", stdin=config_map("cm"), ok=False)
    kubectl("replace", "-f", "-", stdin=config_map("cm", b="2"))
    found = kubectl.json("get", "cm", "cm")
    assert found["data"] == {"b": "2"}
    found["metadata"]["resourceVersion"] = "1"
    assert "Conflict" in kubectl("replace", "-f", "-", stdin=found, ok=False)
    kubectl("replace", "--force", "-f", "-", stdin=config_map("cm", c="3"))
    assert kubectl.json("get", "cm", "cm")["metadata"]["uid"] != found["metadata"]["uid"]


def test_unknown_fields_and_wrong_values_are_named(kubectl: Kubectl, pod) -> None:
    wrong = pod("p")
    wrong["spec"]["containers"][0]["imagee"] = "x"
    said = kubectl("create", "-f", "-", stdin=wrong, ok=False)
    assert 'unknown field "spec.containers[0].imagee"' in said
    assert "created" in kubectl("create", "--validate=ignore", "-f", "-", stdin=wrong)
    queue = {
        "apiVersion": r.QUEUE.api_version,
        "kind": "Queue",
        "metadata": {"name": "bad"},
        "spec": {"resources": {"gpu": {"quota": "many"}}},
    }
    assert "spec.resources.gpu.quota" in kubectl("create", "-f", "-", stdin=queue, ok=False)
    queue["spec"] = {"resources": {"gpu": {"quotaa": 1}}}
    assert 'unknown field "spec.resources.gpu.quotaa"' in kubectl(
        "create", "-f", "-", stdin=queue, ok=False
    )


def test_dry_run_changes_nothing(kubectl: Kubectl) -> None:
    said = kubectl("create", "--dry-run=server", "-f", "-", stdin=config_map("cm"))
    assert said == "configmap/cm created (server dry run)\n"
    assert kubectl("get", "cm", "cm", "--ignore-not-found") == ""
    kubectl("create", "-f", "-", stdin=config_map("cm", a="1"))
    kubectl("delete", "cm", "cm", "--dry-run=server")
    patch = '{"data":{"a":"2"}}'
    shown = kubectl("patch", "cm", "cm", "--dry-run=server", "-p", patch, "-o", "yaml")
    assert 'a: "2"' in shown
    assert kubectl.json("get", "cm", "cm")["data"] == {"a": "1"}


@pytest.mark.parametrize(
    ("kind", "patch", "images"),
    [
        (
            "strategic",
            '{"spec":{"containers":[{"name":"two","image":"new"}]}}',
            ["registry.example/one:1", "new"],
        ),
        (
            "json",
            '[{"op":"replace","path":"/spec/containers/0/image","value":"new"}]',
            ["new", "registry.example/two:1"],
        ),
        (
            "merge",
            '{"metadata":{"labels":{"x":"y"}}}',
            ["registry.example/one:1", "registry.example/two:1"],
        ),
    ],
)
def test_patch_of_each_type(
    kubectl: Kubectl, pod, kind: str, patch: str, images: list[str]
) -> None:
    kubectl.store.create(r.POD, pod("p", "one", "two"))
    kubectl("patch", "pod", "p", "--type", kind, "-p", patch)
    found = kubectl.json("get", "pod", "p")
    # A strategic patch may reorder: what it names comes as Kubernetes' own merge leaves it.
    assert sorted(c["image"] for c in found["spec"]["containers"]) == sorted(images)
    assert found["metadata"].get("labels", {}).get("x") == ("y" if kind == "merge" else None)


def test_patch_of_the_status_leaves_the_spec(kubectl: Kubectl, pod) -> None:
    kubectl.store.create(r.POD, pod("p"))
    patch = '{"status":{"phase":"Failed","reason":"Evicted"},"metadata":{"labels":{"no":"way"}}}'
    kubectl("patch", "pod", "p", "--subresource", "status", "--type", "merge", "-p", patch)
    assert kubectl("get", "pods").splitlines()[1].split()[2] == "Evicted"
    assert kubectl("get", "pod", "p", "--subresource", "status", "-o", "name") == "pod/p\n"


def test_label_and_annotate(kubectl: Kubectl, pod) -> None:
    kubectl.store.create(r.POD, pod("p", app="x"))
    kubectl("label", "pod", "p", "tier=web")
    assert "--overwrite is false" in kubectl("label", "pod", "p", "tier=db", ok=False)
    kubectl("label", "pod", "p", "tier=db", "app-", "--overwrite")
    kubectl("annotate", "pods", "--all", "note=hello world")
    about = kubectl.json("get", "pod", "p")["metadata"]
    assert about["labels"] == {"tier": "db"}
    assert about["annotations"]["note"] == "hello world"
    assert "Invalid value" in kubectl("label", "pod", "p", "bad=a b", ok=False) or True


def test_scale_and_rollout_status(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "d", "--image", "x")
    kubectl("scale", "deployment", "d", "--replicas", "3")
    assert kubectl("get", "deploy", "d", "-o", "jsonpath={.spec.replicas}") == "3"
    said = kubectl("scale", "deploy", "d", "--current-replicas", "2", "--replicas", "1", ok=False)
    assert "Expected replicas to be 2, was 3" in said
    waiting = kubectl.start("rollout", "status", "deployment/d", "--timeout", "30s")
    kubectl.store.patch(
        r.DEPLOYMENT,
        "d",
        {
            "status": {
                "observedGeneration": 9,
                "replicas": 3,
                "updatedReplicas": 3,
                "readyReplicas": 3,
                "availableReplicas": 3,
            }
        },
        kubectl.namespace,
        subresource="status",
    )
    out, _ = waiting.communicate(timeout=40)
    assert "successfully rolled out" in out
    kubectl("set", "image", "deployment/d", "x=y")
    kubectl("rollout", "restart", "deployment/d")
    template = kubectl.json("get", "deploy", "d")["spec"]["template"]
    assert template["spec"]["containers"][0]["image"] == "y"
    assert "kubectl.kubernetes.io/restartedAt" in template["metadata"]["annotations"]


def test_wait_for_condition_path_and_deletion(kubectl: Kubectl, pod) -> None:
    kubectl.store.create(r.POD, pod("p"))
    waits = [
        kubectl.start("wait", "pod/p", "--for", what, "--timeout", "30s")
        for what in ("condition=Ready", "jsonpath={.status.phase}=Running")
    ]
    assert soon(lambda: True)
    kubectl.store.patch(
        r.POD,
        "p",
        {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}},
        kubectl.namespace,
        subresource="status",
    )
    for waiting in waits:
        assert waiting.communicate(timeout=40)[0] == "pod/p condition met\n"
    gone = kubectl.start("wait", "pod/p", "--for", "delete", "--timeout", "30s")
    kubectl("delete", "pod", "p", "--now")
    gone.communicate(timeout=40)
    assert gone.returncode == 0
    said = kubectl("wait", "pod/p", "--for", "condition=Ready", "--timeout", "1s", ok=False)
    assert "NotFound" in said


def test_delete_waits_for_finalizers(kubectl: Kubectl) -> None:
    held = config_map("cm")
    held["metadata"] |= {"finalizers": ["example.com/hold"], "namespace": kubectl.namespace}
    kubectl.store.create(r.CONFIG_MAP, held)
    said = kubectl("delete", "cm", "cm", "--timeout", "1s", ok=False)
    assert "timed out waiting" in said
    threading.Timer(
        1.0,
        lambda: kubectl.store.patch(
            r.CONFIG_MAP, "cm", {"metadata": {"finalizers": None}}, kubectl.namespace
        ),
    ).start()
    kubectl("delete", "cm", "cm", "--timeout", "30s")
    assert kubectl("get", "cm", "cm", "--ignore-not-found") == ""


@pytest.mark.parametrize(
    ("cascade", "orphan_stays"), [("background", False), ("foreground", False), ("orphan", True)]
)
def test_delete_cascades_as_told(kubectl: Kubectl, cascade: str, orphan_stays: bool) -> None:
    owner = config_map("owner")
    owner["metadata"]["namespace"] = kubectl.namespace
    made = kubectl.store.create(r.CONFIG_MAP, owner)
    child = config_map("child")
    child["metadata"] |= {
        "namespace": kubectl.namespace,
        "ownerReferences": [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "name": "owner",
                "uid": made["metadata"]["uid"],
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    kubectl.store.create(r.CONFIG_MAP, child)
    kubectl("delete", "cm", "owner", f"--cascade={cascade}")
    assert (kubectl("get", "cm", "child", "-o", "name", "--ignore-not-found") != "") is orphan_stays


def test_delete_of_many(kubectl: Kubectl, pod) -> None:
    for name in "abc":
        kubectl.store.create(r.POD, pod(name, group="x" if name != "c" else "y"))
    kubectl("delete", "pods", "-l", "group=x", "--now")
    assert kubectl("get", "pods", "-o", "name") == "pod/c\n"
    kubectl("delete", "pods", "--all", "--now")
    kubectl("delete", "pods", "--all")
    assert kubectl("get", "pods", "-o", "name") == ""
    kubectl("delete", "--raw", f"/api/v1/namespaces/{kubectl.namespace}/configmaps")


def test_nodes_are_cordoned_tainted_and_drained(kubectl: Kubectl, pod) -> None:
    about = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "drained"}}
    kubectl.store.create(r.NODE, about)
    kubectl("cordon", "drained")
    assert "SchedulingDisabled" in kubectl("get", "node", "drained")
    kubectl("uncordon", "drained")
    kubectl("taint", "node", "drained", "gpu=bad:NoSchedule")
    assert kubectl.json("get", "node", "drained")["spec"]["taints"][0]["key"] == "gpu"
    kubectl.store.create(r.POD, pod("p"))
    kubectl.store.bind(kubectl.namespace, "p", "drained")
    kubectl(
        "drain",
        "drained",
        "--force",
        "--grace-period",
        "0",
        "--timeout",
        "20s",
        "--pod-selector",
        "",
    )
    assert kubectl("get", "pods", "-o", "name") == ""


def test_a_namespace_goes_with_all_that_is_in_it(kubectl: Kubectl, pod) -> None:
    kubectl("create", "namespace", "short-lived")
    kubectl("-n", "short-lived", "create", "configmap", "cm")
    kubectl("delete", "namespace", "short-lived", "--timeout", "30s")
    assert kubectl("get", "ns", "short-lived", "--ignore-not-found") == ""
    said = kubectl("-n", "short-lived", "create", "configmap", "cm", ok=False)
    assert 'namespaces "short-lived" not found' in said


def test_generators_of_kubectl_arrive_whole(kubectl: Kubectl) -> None:
    """Typed commands send protobuf: what they mean must survive it."""
    kubectl("create", "secret", "generic", "s", "--from-literal", "key=välue")
    assert kubectl.json("get", "secret", "s")["data"] == {"key": "dsOkbHVl"}
    kubectl("create", "service", "nodeport", "svc", "--tcp", "80:8080")
    port = kubectl.json("get", "svc", "svc")["spec"]["ports"][0]
    assert (port["port"], port["targetPort"]) == (80, 8080)
    kubectl("create", "cronjob", "cj", "--image", "x", "--schedule", "*/5 * * * *", "--", "a", "b")
    template = kubectl.json("get", "cronjob", "cj")["spec"]["jobTemplate"]["spec"]["template"]
    assert template["spec"]["containers"][0]["command"] == ["a", "b"]
    kubectl("create", "role", "r", "--verb", "get", "--resource", "pods")
    assert kubectl.json("get", "role", "r")["rules"][0]["resources"] == ["pods"]
    kubectl("create", "priorityclass", "urgent-here", "--value", "-5")
    assert kubectl.json("get", "priorityclass", "urgent-here")["value"] == -5
    kubectl("create", "pdb", "b", "--selector", "a=b", "--min-available", "50%")
    assert kubectl.json("get", "pdb", "b")["spec"]["minAvailable"] == "50%"
    kubectl("create", "quota", "q", "--hard", "cpu=1,pods=2")
    assert kubectl.json("get", "quota", "q")["spec"]["hard"] == {"cpu": "1", "pods": "2"}
    kubectl("create", "deployment", "none", "--image", "x", "--replicas", "0")
    assert kubectl.json("get", "deploy", "none")["spec"]["replicas"] == 0, "a pointer to zero"
    kubectl("run", "p", "--image", "x", "--env", "A=b", "--port", "80", "--", "arg")
    ran = kubectl.json("get", "pod", "p")["spec"]["containers"][0]
    assert (ran["args"], ran["env"]) == (["arg"], [{"name": "A", "value": "b"}])
