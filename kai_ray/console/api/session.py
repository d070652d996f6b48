"""Who is looking, and what they may do."""

from __future__ import annotations

from importlib import metadata

from kai_ray.cluster import resources as R
from kai_ray.console import shapes
from kai_ray.console.asking import Ask
from kai_ray.console.clusters import Clusters
from kai_ray.console.viewers import Door, Viewer


def session(clusters: Clusters, door: Door, viewer: Viewer | None) -> shapes.Session:
    """What everybody is told, and more to who has signed in."""
    made = shapes.Session(
        mode=door.mode,
        version=metadata.version("kai-ray"),
        signed_in=viewer is not None,
        sign_in=door.sign_in,
    )
    if viewer is None:
        return made
    ask = Ask(clusters, viewer)
    home = clusters.home
    made.user = viewer.name
    made.home = home.name
    made.contexts = contexts(clusters)
    made.may_read_queues = viewer.may_list(R.QUEUE)
    made.may_read_nodes = viewer.may_list(R.NODE)
    view = home.view()
    names = [queue["metadata"]["name"] for queue in view.queues]
    made.may_edit_queues = bool(viewer.may_edit(names))
    seen = ask.sees(view)
    made.namespaces = None if seen is None else sorted(seen)
    made.history = view.history is not None
    return made


def contexts(clusters: Clusters) -> list[shapes.Context]:
    found: list[shapes.Context] = []
    for cluster in clusters:
        health, since = cluster.health()
        found.append(
            shapes.Context(cluster.name, cluster.home, health.state, health.message, since)
        )
    return found
