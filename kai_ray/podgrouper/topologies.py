"""Which domains a workload, or a part of it, is to stay in: by KAI's words and by Kueue's."""

from __future__ import annotations

from dataclasses import replace

from kai_ray.api import labels as keys

from .groups import Topology
from .values import GroupError, Object, annotations_of, name_of
from .workload import Workload


def stated_topology(obj: Object | None) -> Topology:
    """KAI's three annotations, as they stand."""
    notes = annotations_of(obj)
    return Topology(
        notes.get(keys.TOPOLOGY, ""),
        notes.get(keys.TOPOLOGY_REQUIRED, ""),
        notes.get(keys.TOPOLOGY_PREFERRED, ""),
    )


def kueue_topology(w: Workload, obj: Object | None, notes: list[str]) -> Topology:
    """Kueue's annotations name levels only: the Topology is the first by name with those levels."""
    stated = annotations_of(obj)
    required = stated.get(keys.KUEUE_TOPOLOGY_REQUIRED, "")
    preferred = stated.get(keys.KUEUE_TOPOLOGY_PREFERRED, "")
    wanted = {level for level in (required, preferred) if level}
    if not wanted:
        return Topology()
    name = stated.get(keys.TOPOLOGY, "")
    if not name:
        fitting = [
            name_of(t)
            for t in w.reader.list("kai.scheduler/v1alpha1", "Topology")
            if wanted <= _levels(t)
        ]
        if not fitting:
            notes.append(
                f"annotation for topology level {' and '.join(sorted(wanted))} is ignored: no "
                f"Topology has it; create one, or name one in annotation {keys.TOPOLOGY}"
            )
            return Topology()
        name = min(fitting)
    return Topology(name, required, preferred)


def _levels(topology: Object) -> set[str]:
    spec = topology.get("spec")
    rows = spec.get("levels") if isinstance(spec, dict) else None
    return {
        str(value)
        for row in (rows if isinstance(rows, list) else [])
        if isinstance(row, dict)
        for value in (row.get("nodeLabel"), row.get("alias"))
        if value
    }


def template_topology(
    w: Workload, template: Object, notes: list[str], field: str
) -> Topology | None:
    """The constraint of one group of pods, from its template.

    A level needs a Topology: the template names it, or the workload does for all of its groups.
    """
    stated = stated_topology(template)
    if stated.required or stated.preferred:
        inherited = (stated_topology(owner).name for owner in (w.subject, w.top))
        name = stated.name or next((n for n in inherited if n), "")
        if not name:
            raise GroupError(
                f"{field}.metadata.annotations[{keys.TOPOLOGY}]",
                "is missing though a topology level is asked for",
                "name the Topology object there",
            )
        return replace(stated, name=name)
    return kueue_topology(w, template, notes) or None
