"""Pods of managed namespaces become ours at the door; those of others pass untouched."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kai_ray.admission import default_admission
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.memory import MemoryStore, install_defaults
from kai_ray.cluster.port import Invalid, Object
from kai_ray.encode import EncodeConfig

from . import objects


def _store(member_of: Any = None, config: EncodeConfig | None = None) -> MemoryStore:
    store = MemoryStore(admission=default_admission(config, member_of))
    install_defaults(store)
    store.create(kinds.NAMESPACE, {"metadata": {"name": "foreign"}})
    return store


def _made(store: MemoryStore, pod: Object) -> Object:
    return store.create(kinds.POD, pod)


@pytest.mark.parametrize("scheduler", ["", "default-scheduler"])
def test_an_unlabelled_pod_of_a_managed_namespace_becomes_ours(scheduler: str) -> None:
    made = _made(_store(), objects.pod("p", scheduler=scheduler))
    assert made["spec"]["schedulerName"] == "kai-scheduler"


def test_the_first_of_a_list_of_names_is_given() -> None:
    store = _store(config=EncodeConfig(scheduler_names=("mine", "kai-scheduler")))
    assert _made(store, objects.pod("p", scheduler=""))["spec"]["schedulerName"] == "mine"
    made = _made(store, objects.pod("q", scheduler="kai-scheduler"))
    assert made["spec"]["schedulerName"] == "kai-scheduler"


def test_foreign_pods_pass_untouched() -> None:
    store = _store(lambda pod: ("group", "sub"))
    theirs = _made(store, objects.pod("p", scheduler="other"))
    away = _made(store, objects.pod("p", scheduler="", namespace="foreign"))
    for pod, name in ((theirs, "other"), (away, "default-scheduler")):
        assert pod["spec"]["schedulerName"] == name
        assert "pod-group-name" not in (pod["metadata"].get("annotations") or {})


def test_a_pod_that_has_a_node_already_is_left_to_its_maker() -> None:
    made = _made(_store(), objects.pod("p", scheduler="default-scheduler", node="n"))
    assert made["spec"]["schedulerName"] == "default-scheduler"


def test_the_gang_is_stamped_where_it_is_known() -> None:
    made = _made(_store(lambda pod: ("group", "workers")), objects.pod("p"))
    assert made["metadata"]["annotations"]["pod-group-name"] == "group"
    assert made["metadata"]["labels"]["kai.scheduler/subgroup-name"] == "workers"


@pytest.mark.parametrize("subgroup", ["", "default"])
def test_a_gang_without_subgroups_stamps_no_label(subgroup: str) -> None:
    made = _made(_store(lambda pod: ("group", subgroup)), objects.pod("p"))
    assert "kai.scheduler/subgroup-name" not in (made["metadata"].get("labels") or {})


def test_what_the_user_has_set_stays() -> None:
    pod = objects.pod("p", "mine", labels={"kai.scheduler/subgroup-name": "own"})
    made = _made(_store(lambda pod: ("group", "workers")), pod)
    assert made["metadata"]["annotations"]["pod-group-name"] == "mine"
    assert made["metadata"]["labels"]["kai.scheduler/subgroup-name"] == "own"


def test_without_an_answer_the_pod_is_made_all_the_same() -> None:
    made = _made(_store(lambda pod: None), objects.pod("p"))
    assert not (made["metadata"].get("annotations") or {}).get("pod-group-name")


@pytest.mark.parametrize("group", ["Upper", "a/b", "x" * 300, ""])
def test_a_group_that_is_no_name_is_refused(group: str) -> None:
    pod = objects.pod("p", annotations={"pod-group-name": group})
    with pytest.raises(Invalid) as caught:
        _made(_store(), pod)
    (cause,) = caught.value.details["causes"]
    assert cause["field"] == "metadata.annotations[pod-group-name]"


def test_a_queue_keeps_its_old_faults_while_only_its_labels_change() -> None:
    store = _store()
    plugins, store.admission = store.admission, []
    store.create(kinds.QUEUE, objects.queue("old", gpu={"quota": 8, "limit": -1}))
    store.create(kinds.QUEUE, objects.queue("orphan", "nowhere"))
    store.admission = plugins
    patch = {"metadata": {"annotations": {"kai.scheduler/paused": "true"}}}
    assert store.patch(kinds.QUEUE, "orphan", patch)["metadata"]["annotations"]
    with pytest.raises(Invalid):
        store.patch(kinds.QUEUE, "orphan", {"spec": {"parentQueue": "elsewhere"}})
    store.patch(kinds.QUEUE, "orphan", {"spec": {"parentQueue": "old"}})


def test_an_update_may_keep_a_minimum_on_a_subgroup_with_children() -> None:
    """KAI refuses it on create and only warns on update."""
    store = _store()
    subs = [{"name": "a", "minMember": 1}]
    made = store.create(kinds.POD_GROUP, objects.podgroup("g", minimum=None, subGroups=subs))
    changed = copy.deepcopy(made)
    changed["spec"]["subGroups"].append({"name": "b", "parent": "a", "minMember": 1})
    store.update(kinds.POD_GROUP, changed)
