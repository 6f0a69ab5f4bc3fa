"""The output of each command of kcl, kafkactl and kcat."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.interop.controllers import Controllers
from tests.interop.suites.answers import FIRST, SECOND, THIRD, Program, Said
from tests.interop.suites.clusters import BROKERS

SECONDS_MAX = 120
KCL = f"""
cluster describe-cluster
cluster describe-quorum
cluster features describe
cluster metadata --detailed
cluster elect-leaders --all-partitions
misc api-versions --with-key-nums
misc probe-version
misc list-offsets orders
misc list-offsets --with-epochs orders
misc offset-for-leader-epoch orders
topic list
topic list --detailed
topic describe orders
topic create made --replica-assignment {FIRST}:{SECOND}:{THIRD},{SECOND}:{THIRD}:{FIRST} -k retention.ms=1000000
topic create made
topic create refused -r 9
topic create refused -k no.such=1
topic describe made --section configs
topic add-partitions -t made {THIRD},{FIRST},{SECOND}
topic add-partitions -t made {FIRST},{FIRST}
topic add-partitions -t made {FIRST}
topic describe made --section partitions
topic describe missing
printf 'one\\ntwo\\nthree\\n' | produce -t made -p 0
consume -t made -p 0 -n 3 -o start -f '%o %v %e\\n'
topic trim-prefix made --offset 2 --partitions 0 --yes
misc list-offsets made
config describe orders -t topic
config describe {FIRST} -t broker
config describe -t broker
config alter orders -s retention.ms=1000000
config alter orders --append cleanup.policy=compact
config alter orders --delete retention.ms
config alter orders --dry-run -s retention.ms=-7
config alter orders -s min.insync.replicas=zero
config alter orders -s no.such=1
config alter missing -s retention.ms=1
config alter {FIRST} -t broker -s log.cleaner.threads=2
config alter {FIRST} -t broker -s node.id=2
config alter {FIRST} -t bl -s org.apache.kafka.common=DEBUG
config alter modern -t g -s consumer.session.timeout.ms=50000
config describe modern -t g
config describe orders -t topic
group list
group describe classic
group describe modern
group describe idle
group describe missing
group seek idle --to end --topics orders --yes
group seek idle --to 5 --topics orders --dry-run
group seek classic --to end --topics orders --yes
group describe idle
group offset-delete idle -t orders:0
group delete idle
group delete classic
group delete missing
logdirs describe orders
logdirs alter made:0=/no/such/directory --broker {FIRST}
reassign list
reassign alter 'orders:0->{SECOND},{THIRD}'
reassign alter 'orders:9->{FIRST}'
reassign alter 'orders:1->99'
acl create --allow-principal User:alice --topic orders --op read --op describe
acl create --allow-principal User:alice --topic pre --pattern prefixed --op write
acl list --type any --pattern any --op any --perm any
acl delete --topic orders --pattern literal --op any --perm any --yes
acl list --type any --pattern any --op any --perm any
user alter --set user=alice,mechanism=scram-sha-256,password=secret,salt=01020304
user list
user alter --del user=bob,mechanism=scram-sha-512
user alter --del user=alice,mechanism=scram-sha-256
user list
quota alter --name user=alice --add producer_byte_rate=1000 --add consumer_byte_rate=2000
quota describe --name user=alice
quota alter --name user=alice --delete producer_byte_rate
quota alter --name user=alice --add no_such=1
quota describe --any user
txn list
txn describe writer
txn describe missing
txn describe-producers made:0
dtoken create
dtoken describe
client-metrics list
share-group list
topic delete made
topic delete made
"""
KAFKACTL = f"""
get topics
get topics -o wide
get brokers
get brokers -o yaml
get consumer-groups
get consumer-groups -o wide
create topic made --partitions 3 --replication-factor 3 --config retention.ms=1000000
create topic made
create topic refused --replication-factor 9
describe topic made -o yaml
describe topic orders
describe topic orders -o wide
describe topic orders --all-configs -o yaml
describe topic missing
clone topic orders twin
describe topic twin -o yaml
alter topic made --partitions 5
alter topic made --config retention.ms=2000000 --config cleanup.policy=delete
alter topic made --config no.such=1
alter topic made --replication-factor 2
alter partition orders 0 --replicas {SECOND},{THIRD}
describe topic orders
printf 'one\\ntwo\\nthree\\n' | produce made --partitioner manual --partition 0
produce made --key k --value v --partitioner manual --partition 1 --header h:1
consume made --from-beginning --exit --print-keys --print-headers --print-partitions
consume orders --from-beginning --exit --partitions 0
consume orders --tail 3 --exit
consume missing --from-beginning --exit
delete records made --offset 0=2
consume made --from-beginning --exit --print-partitions
describe consumer-group classic
describe consumer-group classic -o yaml
describe consumer-group modern -o yaml
describe consumer-group idle
describe consumer-group idle --only-with-lag
create consumer-group fresh --topic orders --oldest
describe consumer-group fresh
reset consumer-group-offset fresh --topic orders --newest
reset consumer-group-offset fresh --topic orders --newest --execute
reset consumer-group-offset classic --topic orders --oldest --execute
clone consumer-group fresh copied
describe consumer-group copied -o yaml
delete consumer-group-offset fresh --topic orders --partition 0
delete consumer-group fresh
delete consumer-group classic
describe broker {FIRST}
describe broker {FIRST} -o yaml
describe broker 9
alter broker {FIRST} --config log.cleaner.threads=2
create access-control-list --topic orders --operation read --operation describe --principal User:alice --allow
create access-control-list --cluster --operation alter --principal User:alice --deny --host 127.0.0.1
create access-control-list --group pre --pattern prefixed --operation all --principal User:bob --allow
get access-control-list
get access-control-list -o yaml
delete access-control-list --topics --operation read --pattern any --allow
get access-control-list -o yaml
create user alice --password secret --salt c2FsdHlzYWx0eQ==
get users
describe user alice -o yaml
alter user alice --password other --mechanism SCRAM-SHA-512
describe user alice -o yaml
delete user alice --mechanism SCRAM-SHA-256
delete user bob --mechanism SCRAM-SHA-256
get users
delete topic made
delete topic made
"""
KCAT = """
-L -t orders
printf 'k1:one\\nk2:two\\n' | -P -t made -p 0 -K :
printf 'k3:three\\n' | -P -t made -p 0 -K : -z zstd -H h=1
printf 'four\\n' | -P -t made -p 0 -X enable.idempotence=true
-C -t made -p 0 -e -f '%o %k %s %h %S %R\\n' -o beginning
-C -t made -p 0 -e -q -J -o -1
-C -t orders -p 1 -e -q -o 38
-C -t orders -p 1 -c 2 -q
-C -t orders -e -q -o s@0
-C -t orders -e -q -o s@1 -o e@2
-Q -t orders:0:-1
-Q -t orders:0:-2
-Q -t orders:2:1
-G readers -e -q -X auto.offset.reset=earliest orders
-C -t missing -p 7 -e
printf 'lost\\n' | -P -t orders -p 9 -X message.timeout.ms=10000
"""


@dataclass(frozen=True)
class Commands:
    """A program with its command lines; the brokers' addresses are either an argument of each, or in its file."""

    program: str
    lines: str
    brokers: str = ""

    def __call__(self, nodes: Controllers, work: Path, only: Iterable[str]) -> Said:
        bootstrap = nodes.bootstrap(*BROKERS)
        environ = {
            **os.environ,
            "KCL_NO_CONFIG_FILE": "1",
            "HOME": str(work),  # a folder without the user's settings
            "BROKERS": bootstrap.replace(",", " "),  # the format of kafkactl
        }
        words = (self.program, *((self.brokers, bootstrap) if self.brokers else ()))
        said: dict[str, list[str]] = {}
        for number, line in enumerate(self.lines.strip().splitlines(), 1):
            before, _, command = line.rpartition(" | ")
            text = ""
            if before:
                text = before.removeprefix("printf '").removesuffix("'").replace("\\n", "\n")
            if not only or any(part in line for part in only):
                said[f"{number:02} {line}"] = _said((*words, *shlex.split(command)), text, environ)
        return said


def _said(command: tuple[str, ...], text: str, environ: dict[str, str]) -> list[str]:
    try:
        done = subprocess.run(
            command,
            input=text,
            capture_output=True,
            text=True,
            env=environ,
            check=False,
            timeout=SECONDS_MAX,
        )
    except subprocess.TimeoutExpired:
        return [f"no end after {SECONDS_MAX} seconds"]
    return [f"exit {done.returncode}", *done.stdout.splitlines(), *done.stderr.splitlines()]


PROGRAMS = (
    Program("kcl", "0.18.0", "kcl", Commands("kcl", KCL, "-B")),
    Program("kafkactl", "5.20.0", "kafkactl", Commands("kafkactl", KAFKACTL)),
    Program("kcat", "1.7.1", "kcat", Commands("kcat", KCAT, "-b")),
)
