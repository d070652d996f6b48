"""SchedulingShards: settings that can be used, and one shard for each node pool."""

from __future__ import annotations

from kai_ray.admission.refusal import cause, refusal
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import AdmissionRequest, Object, Port
from kai_ray.encode.problems import Malformed
from kai_ray.encode.shard_spec import read


class ShardAdmission:
    resources = frozenset({kinds.SCHEDULING_SHARD})

    def admit(self, request: AdmissionRequest, reader: Port) -> Object:
        shard = request.object
        if request.operation == "DELETE":
            return shard
        if request.old is not None and request.old.get("spec") == shard.get("spec"):
            return shard
        name = shard["metadata"].get("name") or ""
        try:
            pool = read(shard).pool
            self._alone(pool, name, reader)
        except Malformed as error:
            causes = [cause(error.field, error.mend)]
            raise refusal(kinds.SCHEDULING_SHARD, name, causes) from None
        return shard

    def _alone(self, pool: str, name: str, reader: Port) -> None:
        for other in reader.list(kinds.SCHEDULING_SHARD).items:
            theirs = (other.get("spec") or {}).get("partitionLabelValue") or ""
            if other["metadata"]["name"] != name and theirs == pool:
                mend = f"{pool!r} is served by {other['metadata']['name']}: name another pool"
                raise Malformed("spec.partitionLabelValue", mend)
