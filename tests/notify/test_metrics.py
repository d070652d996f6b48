"""What became of messages is told to Prometheus."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from kai_ray.cluster.clock import VirtualClock
from kai_ray.manager.scrape import metrics_page
from kai_ray.sight.notify import NotifyConfig
from kai_ray.sight.notify.message import Message
from kai_ray.sim.cluster_file import ClusterConfig
from kai_ray.sim.embedded import EmbeddedCluster
from tests.notify.webhooks import until, webhook


def test_a_scrape_counts_messages_by_their_outcome() -> None:
    config = NotifyConfig(hosts=("localhost",))
    with (
        webhook() as hook,
        EmbeddedCluster(ClusterConfig.short("1x1"), VirtualClock(), notify=config) as cluster,
    ):
        delivery = cluster.composition.delivery
        message = Message("started", "ns", "train", "Job", "q", 1.0, "")
        for target in (hook.url, "nobody"):
            delivery.send(target, message)
        until(lambda: delivery.figures().sent + delivery.figures().refused == 2)
        _, body = metrics_page(lambda: (cluster.composition, cluster.runtime))("")
        found = {
            (s.name, *s.labels.values()): s.value
            for family in text_string_to_metric_families(body.decode())
            for s in family.samples
        }
    assert found["kai_notifications_total", "sent"] == 1
    assert found["kai_notifications_total", "refused"] == 1
    assert found["kai_notifications_total", "dropped"] == 0
    assert found["kai_notifications_waiting",] == 0
    assert found["kai_notification_targets_failing",] == 1
