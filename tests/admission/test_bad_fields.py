"""Every object of the table is refused by the embedded cluster, with its field and its mend."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest

from kai_ray.admission import default_admission
from kai_ray.cluster.memory import MemoryStore, install_defaults
from kai_ray.cluster.port import ApiError

from . import bad_fields


@pytest.fixture(scope="module")
def store() -> Iterator[MemoryStore]:
    made = MemoryStore(admission=default_admission())
    install_defaults(made)
    yield made
    made.close()


@pytest.mark.parametrize("bad", bad_fields.ALL, ids=lambda bad: bad.name)
def test_it_is_refused_by_field_and_mend(store: MemoryStore, bad: bad_fields.Bad) -> None:
    with pytest.raises(ApiError) as caught:
        store.create(bad.resource, copy.deepcopy(bad.obj))
    assert bad.field in caught.value.message
    for word in bad.words:
        assert word in caught.value.message
