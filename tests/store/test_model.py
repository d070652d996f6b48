"""The store against a model so simple that it is plainly right."""

from __future__ import annotations

import copy
from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, rule

from kai_ray.cluster import resources as r
from kai_ray.cluster.memory import MemoryStore
from kai_ray.cluster.port import AlreadyExists, Conflict, Gone, Key, NotFound, Object, key_of

NAMESPACES = ("one", "two")
NAMES = st.sampled_from(["a", "b", "c", "d"])
PLACES = st.sampled_from(NAMESPACES)
DATA = st.dictionaries(st.sampled_from(["x", "y"]), st.sampled_from(["1", "2"]), max_size=2)
LABELS = st.dictionaries(st.just("team"), st.sampled_from(["red", "blue"]), max_size=1)


class Mirror:
    """What a client believes that follows one watch."""

    def __init__(self, store: MemoryStore, labels: str) -> None:
        self.labels = labels
        self.store = store
        self.objects: dict[Key, Object] = {}
        self.relist()

    def relist(self) -> None:
        page = self.store.list(r.CONFIG_MAP, labels=self.labels)
        self.objects = {key_of(o): o for o in page.items}
        self.version = page.resource_version
        self.watch = self.store.watch(
            r.CONFIG_MAP, labels=self.labels, resource_version=self.version
        )

    def reconnect(self) -> None:
        self.watch.close()
        try:
            self.watch = self.store.watch(
                r.CONFIG_MAP, labels=self.labels, resource_version=self.version
            )
        except Gone:
            self.relist()

    def pump(self) -> None:
        while (event := self.watch.next()) is not None:
            version = event.object["metadata"]["resourceVersion"]
            assert int(version) > int(self.version), "versions only grow"
            self.version = version
            key = key_of(event.object)
            if event.type == "DELETED":
                del self.objects[key]
            else:
                assert (key in self.objects) == (event.type == "MODIFIED")
                self.objects[key] = event.object


class StoreMachine(RuleBasedStateMachine):
    versions = Bundle("versions")

    def __init__(self) -> None:
        super().__init__()
        self.store = MemoryStore(history=8, seed=1)
        for name in NAMESPACES:
            self.store.create(r.NAMESPACE, {"metadata": {"name": name}})
            self.store.delete(r.CONFIG_MAP, "kube-root-ca.crt", name)
        self.model: dict[Key, tuple[dict[str, str], dict[str, str]]] = {}
        self.held: dict[Key, Object] = {}
        self.mirrors = [Mirror(self.store, labels) for labels in ("", "team=red")]
        self.pages: tuple[Any, list[Key], list[Key]] | None = None

    def _object(self, key: Key, data: dict[str, str], labels: dict[str, str]) -> Object:
        meta = {"name": key.name, "namespace": key.namespace, "labels": labels}
        return {"metadata": meta, "data": data}

    @rule(target=versions, place=PLACES, name=NAMES, data=DATA, labels=LABELS)
    def create(self, place: str, name: str, data: dict[str, str], labels: dict[str, str]) -> Any:
        key = Key(place, name)
        try:
            made = self.store.create(r.CONFIG_MAP, self._object(key, data, labels))
        except AlreadyExists:
            assert key in self.model
            return multiple()
        assert key not in self.model
        self.model[key] = (data, labels)
        return made

    @rule(target=versions, old=versions, data=DATA, labels=LABELS)
    def update(self, old: Object, data: dict[str, str], labels: dict[str, str]) -> Any:
        key = key_of(old)
        new = copy.deepcopy(old)
        new["data"], new["metadata"]["labels"] = data, labels
        current = self.store.state.get((("", "configmaps"), key))
        try:
            after = self.store.update(r.CONFIG_MAP, new)
        except NotFound:
            assert key not in self.model
            return multiple()
        except Conflict:
            assert current is not None
            assert current["metadata"]["resourceVersion"] != old["metadata"]["resourceVersion"]
            return multiple()
        self.model[key] = (data, labels)
        return after

    @rule(place=PLACES, name=NAMES, value=st.sampled_from(["7", None]))
    def patch(self, place: str, name: str, value: str | None) -> None:
        key = Key(place, name)
        try:
            self.store.patch(r.CONFIG_MAP, name, {"data": {"x": value}}, place)
        except NotFound:
            assert key not in self.model
            return
        data, labels = self.model[key]
        rest = {k: v for k, v in data.items() if k != "x"}
        self.model[key] = ({**rest, "x": value} if value else rest, labels)

    @rule(place=PLACES, name=NAMES)
    def delete(self, place: str, name: str) -> None:
        key = Key(place, name)
        try:
            self.store.delete(r.CONFIG_MAP, name, place)
        except NotFound:
            assert key not in self.model
            return
        del self.model[key]

    @rule(which=st.integers(0, 1))
    def reconnect(self, which: int) -> None:
        self.mirrors[which].reconnect()

    @rule(which=st.integers(0, 1))
    def pump(self, which: int) -> None:
        self.mirrors[which].pump()

    @rule()
    def begin_pages(self) -> None:
        page = self.store.list(r.CONFIG_MAP, limit=2)
        expected = sorted(self.model)
        self.pages = (page, [key_of(o) for o in page.items], expected)

    @rule()
    def turn_page(self) -> None:
        if self.pages is None:
            return
        page, found, expected = self.pages
        if not page.continue_token:
            assert found == expected, "pages join to the list of the first page's moment"
            self.pages = None
            return
        try:
            page = self.store.list(r.CONFIG_MAP, limit=2, continue_token=page.continue_token)
        except Gone:
            self.pages = None
            return
        self.pages = (page, found + [key_of(o) for o in page.items], expected)

    @invariant()
    def the_store_holds_what_the_model_holds(self) -> None:
        found = {key_of(o): o for o in self.store.list(r.CONFIG_MAP).items}
        assert sorted(found) == sorted(self.model)
        for key, (data, labels) in self.model.items():
            assert found[key].get("data", {}) == data
            assert found[key]["metadata"].get("labels", {}) == labels
            assert self.store.get(r.CONFIG_MAP, key.name, key.namespace) == found[key]

    def teardown(self) -> None:
        for mirror in self.mirrors:
            mirror.pump()
            truth = self.store.list(r.CONFIG_MAP, labels=mirror.labels).items
            assert mirror.objects == {key_of(o): o for o in truth}, "a watch misses nothing"
        self.store.close()


TestStore = StoreMachine.TestCase
TestStore.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
