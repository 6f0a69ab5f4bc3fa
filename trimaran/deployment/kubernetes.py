"""A Kubernetes manifest: two StatefulSets, for controllers and brokers, with the image of `Containerfile`.

The id of a node is the ordinal of its pod, plus 100 for brokers. The quorum is static, so that all controllers can be
started at once.
"""

from __future__ import annotations

import json

from trimaran.deployment.shared import (
    CLIENT_PORT,
    CONTROLLER_PORT,
    DATA,
    METRICS_PORT,
    STOP_SECONDS,
    cluster_environment,
    yaml_lines,
)
from trimaran.wire.identity import NodeId

FIRST_BROKER_ID = 100
USER_ID = 1000  # the user of the image
# A node responds to /healthz while it recovers its logs.
_PROBES = """\
          startupProbe:
            httpGet: {path: /healthz, port: metrics}
            periodSeconds: 5
            failureThreshold: 120
          livenessProbe:
            httpGet: {path: /healthz, port: metrics}
            periodSeconds: 10
            timeoutSeconds: 5
            failureThreshold: 6
          readinessProbe:
            httpGet: {path: /readyz, port: metrics}
            periodSeconds: 5
            timeoutSeconds: 5
"""


def manifest(
    name: str, image: str, cluster_id: str, controllers: int, brokers: int, storage: str
) -> str:
    """Returns YAML with several documents. `storage` is the size of each volume, such as 10Gi."""
    voters = {NodeId(i): f"{name}-controller-{i}.{name}-controller" for i in range(controllers)}
    shared = cluster_environment(cluster_id, voters, brokers)
    documents = [_config_map(name, shared)]
    for role, replicas, port in (
        ("controller", controllers, CONTROLLER_PORT),
        ("broker", brokers, CLIENT_PORT),
    ):
        documents += [
            _headless_service(name, role, port),
            _disruption_budget(name, role),
            _stateful_set(name, role, port, replicas, image, storage),
        ]
    documents.append(_bootstrap_service(name))
    return "---\n".join(documents)


def _config_map(name: str, values: dict[str, str]) -> str:
    return f"""\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {name}
data:
{yaml_lines(values, 2)}
"""


def _headless_service(name: str, role: str, port: int) -> str:
    return f"""\
apiVersion: v1
kind: Service
metadata:
  name: {name}-{role}
  labels: {{app.kubernetes.io/name: {name}, app.kubernetes.io/component: {role}}}
spec:
  clusterIP: None
  publishNotReadyAddresses: true # nodes find each other before they are ready
  selector: {{app.kubernetes.io/name: {name}, app.kubernetes.io/component: {role}}}
  ports:
    - {{name: kafka, port: {port}}}
    - {{name: metrics, port: {METRICS_PORT}}}
"""


def _bootstrap_service(name: str) -> str:
    return f"""\
apiVersion: v1
kind: Service
metadata:
  name: {name}-bootstrap
spec:
  selector: {{app.kubernetes.io/name: {name}, app.kubernetes.io/component: broker}}
  ports:
    - {{name: kafka, port: {CLIENT_PORT}}}
"""


def _disruption_budget(name: str, role: str) -> str:
    return f"""\
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {name}-{role}
spec:
  maxUnavailable: 1
  selector:
    matchLabels: {{app.kubernetes.io/name: {name}, app.kubernetes.io/component: {role}}}
"""


def _script(name: str, role: str, port: int) -> str:
    """Returns the script that sets the environment of a pod from its ordinal and address."""
    first = FIRST_BROKER_ID if role == "broker" else 0
    listener = "PLAINTEXT" if role == "broker" else "CONTROLLER"
    lines = [
        f"export KAFKA_NODE_ID=$(({first} + ${{HOSTNAME##*-}}))",
        f"export KAFKA_LISTENERS={listener}://$POD_IP:{port}",
        f"export KAFKA_TRIMARAN_METRICS_LISTENER=$POD_IP:{METRICS_PORT}",
    ]
    if role == "broker":
        host = f"$HOSTNAME.{name}-broker.$NAMESPACE.svc"
        lines.append(f"export KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://{host}:{port}")
    lines.append("exec python3 -m trimaran.container")
    return "\n".join(f"              {line}" for line in lines)


def _stateful_set(name: str, role: str, port: int, replicas: int, image: str, storage: str) -> str:
    return f"""\
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: {name}-{role}
spec:
  serviceName: {name}-{role}
  replicas: {replicas}
  podManagementPolicy: Parallel # a quorum needs its majority
  selector:
    matchLabels: {{app.kubernetes.io/name: {name}, app.kubernetes.io/component: {role}}}
  template:
    metadata:
      labels: {{app.kubernetes.io/name: {name}, app.kubernetes.io/component: {role}}}
    spec:
      enableServiceLinks: false # variables of services may begin with KAFKA_
      terminationGracePeriodSeconds: {STOP_SECONDS}
      securityContext:
        runAsNonRoot: true
        runAsUser: {USER_ID}
        runAsGroup: {USER_ID}
        fsGroup: {USER_ID}
        seccompProfile: {{type: RuntimeDefault}}
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels: {{app.kubernetes.io/name: {name}, app.kubernetes.io/component: {role}}}
      containers:
        - name: kafka
          image: {json.dumps(image)}
          command:
            - sh
            - -ec
            - |
{_script(name, role, port)}
          env:
            - {{name: KAFKA_PROCESS_ROLES, value: {role}}}
            - name: POD_IP
              valueFrom: {{fieldRef: {{fieldPath: status.podIP}}}}
            - name: NAMESPACE
              valueFrom: {{fieldRef: {{fieldPath: metadata.namespace}}}}
          envFrom:
            - configMapRef: {{name: {name}}}
          ports:
            - {{name: kafka, containerPort: {port}}}
            - {{name: metrics, containerPort: {METRICS_PORT}}}
{_PROBES}          resources:
            requests: {{cpu: 250m, memory: 256Mi}}
            limits: {{memory: 2Gi}}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities: {{drop: [ALL]}}
          volumeMounts:
            - {{name: data, mountPath: {DATA}}}
            - {{name: tmp, mountPath: /tmp}}
      volumes:
        - {{name: tmp, emptyDir: {{}}}}
  volumeClaimTemplates:
    - metadata:
        name: data
      spec:
        accessModes: [ReadWriteOnce]
        resources:
          requests:
            storage: {storage}
"""
