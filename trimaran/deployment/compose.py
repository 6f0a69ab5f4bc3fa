"""A Compose file: controllers and brokers with the image of `Containerfile`, reachable at localhost."""

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

FIRST_BROKER_ID = 11
FIRST_HOST_PORT = 19092  # the port of the first broker; each further broker has the next one
_PROTOCOLS = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,EXTERNAL:PLAINTEXT"


def compose_file(image: str, cluster_id: str, controllers: int, brokers: int) -> str:
    """Returns the YAML. Brokers are `broker-11`, … inside, and localhost:19092, … outside."""
    voters = {NodeId(number): f"controller-{number}" for number in range(1, controllers + 1)}
    shared = cluster_environment(cluster_id, voters, brokers)
    shared["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"] = _PROTOCOLS
    services = [_controller(number) for number in voters]
    services += [_broker(FIRST_BROKER_ID + i, FIRST_HOST_PORT + i) for i in range(brokers)]
    names = [*voters.values(), *(f"broker-{FIRST_BROKER_ID + i}" for i in range(brokers))]
    volumes = "\n".join(f"  {name}:" for name in names)
    return f"""\
name: trimaran

x-node: &node
  image: {json.dumps(image)}
  restart: unless-stopped
  stop_grace_period: {STOP_SECONDS}s
  read_only: true
  tmpfs: [/tmp]
  cap_drop: [ALL]
  security_opt: ["no-new-privileges:true"]

x-environment: &environment
{yaml_lines(shared, 2)}

services:
{"".join(services)}
volumes:
{volumes}
"""


def _controller(number: int) -> str:
    name = f"controller-{number}"
    environment = {
        "KAFKA_PROCESS_ROLES": "controller",
        "KAFKA_NODE_ID": str(number),
        "KAFKA_LISTENERS": f"CONTROLLER://{name}:{CONTROLLER_PORT}",
    }
    return _service(name, environment)


def _broker(number: int, host_port: int) -> str:
    name = f"broker-{number}"
    inside = f"PLAINTEXT://{name}:{CLIENT_PORT}"
    environment = {
        "KAFKA_PROCESS_ROLES": "broker",
        "KAFKA_NODE_ID": str(number),
        "KAFKA_LISTENERS": f"{inside},EXTERNAL://{name}:{host_port}",
        "KAFKA_ADVERTISED_LISTENERS": f"{inside},EXTERNAL://localhost:{host_port}",
    }
    ports = f'    ports: ["127.0.0.1:{host_port}:{host_port}"]\n'
    return _service(name, environment) + ports


def _service(name: str, environment: dict[str, str]) -> str:
    environment["KAFKA_TRIMARAN_METRICS_LISTENER"] = f"{name}:{METRICS_PORT}"
    return f"""\
  {name}:
    <<: *node
    hostname: {name}
    environment:
      <<: *environment
{yaml_lines(environment, 6)}
    volumes: ["{name}:{DATA}"]
"""
