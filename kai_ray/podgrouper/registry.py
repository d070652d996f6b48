"""Which rule groups which kind of owner: one line per kind, whatever its version."""

from __future__ import annotations

from dataclasses import replace

from .build import merged_over
from .kinds import (
    aml,
    cronjob,
    default,
    deployment,
    grove,
    inference_service,
    job,
    jobset,
    karta,
    knative,
    kubeflow,
    lws,
    mpi,
    pod,
    pytorch,
    ray_cluster,
    ray_cron_job,
    ray_job,
    ray_service,
    runai_job,
    spark_application,
    stateful_set,
    train_job,
)
from .skipped import with_kind_defaults
from .values import Object, group_of, kind_of
from .workload import Rule, Workload

#: (API group, kind) -> rule.
RULES: dict[tuple[str, str], Rule] = {
    ("", "Pod"): pod.RULE,
    ("", "ReplicationController"): default.DEFAULT,
    ("apps", "Deployment"): deployment.RULE,
    ("apps", "ReplicaSet"): default.DEFAULT,
    ("apps", "StatefulSet"): stateful_set.RULE,
    ("apps", "DaemonSet"): default.DEFAULT,
    ("batch", "Job"): job.RULE,
    ("batch", "CronJob"): cronjob.RULE,
    ("ray.io", "RayCluster"): ray_cluster.RULE,
    ("ray.io", "RayJob"): ray_job.RULE,
    ("ray.io", "RayService"): ray_service.RULE,
    ("kubeflow.org", "PyTorchJob"): pytorch.RULE,
    ("kubeflow.org", "TFJob"): kubeflow.TF_JOB,
    ("kubeflow.org", "MPIJob"): mpi.RULE,
    ("kubeflow.org", "XGBoostJob"): kubeflow.XGBOOST_JOB,
    ("kubeflow.org", "PaddleJob"): kubeflow.PADDLE_JOB,
    ("kubeflow.org", "JAXJob"): kubeflow.JAX_JOB,
    ("kubeflow.org", "Notebook"): default.NOTEBOOK,
    ("kubeflow.org", "ScheduledWorkflow"): default.DEFAULT,
    ("jobset.x-k8s.io", "JobSet"): jobset.RULE,
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): lws.RULE,
    ("grove.io", "PodGangSet"): grove.RULE,
    ("grove.io", "PodCliqueSet"): grove.RULE,
    ("serving.knative.dev", "Service"): knative.RULE,
    ("serving.kserve.io", "InferenceService"): inference_service.RULE,
    ("sparkoperator.k8s.io", "SparkApplication"): spark_application.RULE,
    ("run.ai", "RunaiJob"): runai_job.RULE,
    ("amlarc.azureml.com", "AmlJob"): aml.RULE,
    ("machinelearning.seldon.io", "SeldonDeployment"): default.DEFAULT,
    ("kubevirt.io", "VirtualMachineInstance"): default.DEFAULT,
    ("workspace.devfile.io", "DevWorkspace"): default.DEFAULT,
    ("tekton.dev", "PipelineRun"): default.DEFAULT,
    ("tekton.dev", "TaskRun"): default.DEFAULT,
    ("egx.nvidia.io", "SPOTRequest"): default.INFERENCE,
}

#: Kinds that only wrap others: the owner below has the group, with their labels where it has none.
#: The rule, if any, says what they will wrap when nothing exists yet.
WRAPPERS: dict[tuple[str, str], Rule | None] = {
    ("trainer.kubeflow.org", "TrainJob"): train_job.RULE,
    ("ray.io", "RayCronJob"): ray_cron_job.RULE,
    ("workload.codeflare.dev", "AppWrapper"): None,
    ("nvidia.com", "DynamoGraphDeployment"): None,
    ("argoproj.io", "Workflow"): None,
    ("run.ai", "TrainingWorkload"): None,
    ("run.ai", "InteractiveWorkload"): None,
    ("run.ai", "DistributedWorkload"): None,
    ("run.ai", "InferenceWorkload"): None,
    ("run.ai", "DistributedInferenceWorkload"): None,
}


def kind_key(obj: Object) -> tuple[str, str]:
    api_version, kind = kind_of(obj)
    return group_of(api_version), kind


def rule_of(obj: Object) -> Rule:
    return RULES.get(kind_key(obj), default.DEFAULT)


def resolve(w: Workload) -> tuple[Rule, Workload]:
    """The rule for `w`, and `w` with the owner that has the group as its subject.

    `w.subject` is the top of the chain. Wrappers are stepped over; below the owners comes the pod.
    """
    subject = w.subject
    at = len(w.owners) - 1
    while kind_key(subject) in WRAPPERS:
        if w.planning and WRAPPERS[kind_key(subject)] is not None:
            rule = WRAPPERS[kind_key(subject)]
            assert rule is not None
            return rule, replace(w, subject=subject)
        lower = w.owners[at - 1] if at > 0 else w.pod
        if lower is None:
            return default.DEFAULT, replace(w, subject=subject)
        subject = with_kind_defaults(w, merged_over(lower, subject), subject)
        at -= 1
    found = replace(w, subject=subject)
    if kind_key(subject) not in RULES and karta.find(found) is not None:
        return karta.RULE, found
    return rule_of(subject), found


def is_workload(obj: Object) -> bool:
    """Whether we know the kind as an owner of pods."""
    key = kind_key(obj)
    return key in RULES or key in WRAPPERS
