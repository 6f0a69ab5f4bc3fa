"""Prints values of Confluent's serializers, as hexadecimal digits, with what a reader must see, by name as JSON."""

import json
import subprocess
import sys
from pathlib import Path

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "buyer", "type": ["null", "string"]},
        {"name": "tags", "type": {"type": "map", "values": "double"}},
    ],
}
JSON = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Order",
    "type": "object",
    "properties": {"id": {"type": "integer"}},
}
PROTO = """syntax = "proto3";
package shop;
message First { int32 number = 1; }
message Order {
  int64 id = 1;
  map<string, int32> stock = 3;
  message Line { string item = 1; }
  repeated Line lines = 2;
}
"""

client = SchemaRegistryClient({"url": sys.argv[1]})
Path("order.proto").write_text(PROTO)
subprocess.run(
    [sys.executable, "-m", "grpc_tools.protoc", "-I.", "--python_out=.", "order.proto"], check=True
)
sys.path.insert(0, ".")
import order_pb2  # noqa: E402 - it was made just now


def written(serializer, topic, value, expected):
    context = SerializationContext(topic, MessageField.VALUE)
    return serializer(value, context).hex(), expected


order = {"id": 7, "buyer": "é", "tags": {"a": 0.5}}
message = order_pb2.Order(id=7, lines=[order_pb2.Order.Line(item="x")])
print(
    json.dumps(
        {
            "avro": written(AvroSerializer(client, json.dumps(AVRO)), "avro", order, order),
            "json": written(JSONSerializer(json.dumps(JSON), client), "json", {"id": 7}, {"id": 7}),
            "protobuf": written(
                ProtobufSerializer(order_pb2.Order, client),
                "protobuf",
                message,
                {"id": 7, "stock": {}, "lines": [{"item": "x"}]},
            ),
            "nested": written(
                ProtobufSerializer(order_pb2.Order.Line, client),
                "nested",
                message.lines[0],
                {"item": "x"},
            ),
        }
    )
)
