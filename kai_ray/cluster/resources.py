"""The kinds we read and write, and a look-up by apiVersion and kind."""

from __future__ import annotations

from .port import Resource

POD = Resource("", "v1", "pods", "Pod")
NODE = Resource("", "v1", "nodes", "Node", False)
NAMESPACE = Resource("", "v1", "namespaces", "Namespace", False)
EVENT = Resource("", "v1", "events", "Event")
CONFIG_MAP = Resource("", "v1", "configmaps", "ConfigMap")
SECRET = Resource("", "v1", "secrets", "Secret")
SERVICE = Resource("", "v1", "services", "Service")
SERVICE_ACCOUNT = Resource("", "v1", "serviceaccounts", "ServiceAccount")
PVC = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
PV = Resource("", "v1", "persistentvolumes", "PersistentVolume", False)
ENDPOINTS = Resource("", "v1", "endpoints", "Endpoints")
REPLICATION_CONTROLLER = Resource("", "v1", "replicationcontrollers", "ReplicationController")
RESOURCE_QUOTA = Resource("", "v1", "resourcequotas", "ResourceQuota")
LIMIT_RANGE = Resource("", "v1", "limitranges", "LimitRange")

PRIORITY_CLASS = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False)
STORAGE_CLASS = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", False)
LEASE = Resource("coordination.k8s.io", "v1", "leases", "Lease")
PDB = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
CRD = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False
)
ROLE = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role")
ROLE_BINDING = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")
CLUSTER_ROLE = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", False)
CLUSTER_ROLE_BINDING = Resource(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", False
)
NETWORK_POLICY = Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
INGRESS = Resource("networking.k8s.io", "v1", "ingresses", "Ingress")
ENDPOINT_SLICE = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")

#: Devices that drivers offer and pods claim (Dynamic Resource Allocation).
RESOURCE_CLAIM = Resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim")
RESOURCE_CLAIM_TEMPLATE = Resource(
    "resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate"
)
RESOURCE_SLICE = Resource("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", False)
DEVICE_CLASS = Resource("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", False)

JOB = Resource("batch", "v1", "jobs", "Job")
CRON_JOB = Resource("batch", "v1", "cronjobs", "CronJob")
DEPLOYMENT = Resource("apps", "v1", "deployments", "Deployment")
REPLICA_SET = Resource("apps", "v1", "replicasets", "ReplicaSet")
STATEFUL_SET = Resource("apps", "v1", "statefulsets", "StatefulSet")
DAEMON_SET = Resource("apps", "v1", "daemonsets", "DaemonSet")
CONTROLLER_REVISION = Resource("apps", "v1", "controllerrevisions", "ControllerRevision")

QUEUE = Resource("scheduling.run.ai", "v2", "queues", "Queue", False)
POD_GROUP = Resource("scheduling.run.ai", "v2alpha2", "podgroups", "PodGroup")
BIND_REQUEST = Resource("scheduling.run.ai", "v1alpha2", "bindrequests", "BindRequest")
TOPOLOGY = Resource("kai.scheduler", "v1alpha1", "topologies", "Topology", False)
NODE_ZONES = Resource(
    "topology.node.k8s.io", "v1alpha2", "noderesourcetopologies", "NodeResourceTopology", False
)
SCHEDULING_SHARD = Resource("kai.scheduler", "v1", "schedulingshards", "SchedulingShard", False)
KAI_CONFIG = Resource("kai.scheduler", "v1", "configs", "Config", False)
#: What the GPUs of a node are doing; has the node's name.
GPU_NODE_STATE = Resource("kai.scheduler", "v1alpha1", "gpunodestates", "GPUNodeState", False)

RAY_CLUSTER = Resource("ray.io", "v1", "rayclusters", "RayCluster")
RAY_JOB = Resource("ray.io", "v1", "rayjobs", "RayJob")
RAY_SERVICE = Resource("ray.io", "v1", "rayservices", "RayService")
RAY_CRON_JOB = Resource("ray.io", "v1", "raycronjobs", "RayCronJob")

PYTORCH_JOB = Resource("kubeflow.org", "v1", "pytorchjobs", "PyTorchJob")
TF_JOB = Resource("kubeflow.org", "v1", "tfjobs", "TFJob")
MPI_JOB = Resource("kubeflow.org", "v1", "mpijobs", "MPIJob")
XGBOOST_JOB = Resource("kubeflow.org", "v1", "xgboostjobs", "XGBoostJob")
PADDLE_JOB = Resource("kubeflow.org", "v1", "paddlejobs", "PaddleJob")
JAX_JOB = Resource("kubeflow.org", "v1", "jaxjobs", "JAXJob")
TRAIN_JOB = Resource("trainer.kubeflow.org", "v1alpha1", "trainjobs", "TrainJob")
TRAINING_RUNTIME = Resource(
    "trainer.kubeflow.org", "v1alpha1", "trainingruntimes", "TrainingRuntime"
)
CLUSTER_TRAINING_RUNTIME = Resource(
    "trainer.kubeflow.org", "v1alpha1", "clustertrainingruntimes", "ClusterTrainingRuntime", False
)
JOB_SET = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet")
LEADER_WORKER_SET = Resource(
    "leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet"
)

#: Every resource above.
ALL: tuple[Resource, ...] = tuple(v for v in list(globals().values()) if isinstance(v, Resource))
BY_KIND: dict[tuple[str, str], Resource] = {(r.api_version, r.kind): r for r in ALL}
