"""Typical typing mistakes and their error messages: on any cluster with a topic `t` of two partitions, without
authorizer.

`{b}` is `-b` with its brokers, `{B}` `-B` with its controllers, `{broker}` and `{controller}` are the bare addresses.
Files: `absent` does not exist, `empty/` is an empty directory, `bad.json` and `bad.properties` are invalid.
"""

import logging

import pytest

from tests.checks import check_each
from trimaran.cli.app import run
from trimaran.errors.user_error import Exit

NO, USAGE, CANNOT_CONNECT, REFUSED = Exit.NO, Exit.USAGE, Exit.CANNOT_CONNECT, Exit.REFUSED
FILES = {
    "bad.json": "{ not json",
    "bad.properties": "node.id=many",
    "empty.txt": "",
    "unknown.json": '{"version":1,"partitions":[{"topic":"t","partition":0}]}',
}
# Line, exit code, part of the message.
MISTAKES = (
    # Mistakes in commands and options.
    ("topcs list {b}", USAGE, "did you mean topics?"),
    ("topics lst {b}", USAGE, "did you mean list?"),
    ("topics describe {b}", USAGE, "no topic was named"),
    ("topics delete {b}", USAGE, "no topic was named"),
    ("topics create {b}", USAGE, "trimaran topics create needs NAME"),
    ("topics --describe --topic t {b}", USAGE, "use trimaran topics describe NAME"),
    ("topics alter t --config retention.ms=1 {b}", USAGE, "use trimaran configs set topic/NAME"),
    ("consume t --from-beginning {b}", USAGE, "can be written as --offset start"),
    ("consume t --max-messages=3 {b}", USAGE, "use -n COUNT"),
    ("kafka-topics.sh --describe --topic t {b}", USAGE, "use trimaran topics describe NAME"),
    ("share-groups --list {b}", USAGE, "use trimaran groups list --type share"),
    ("configs unset topic/t retention.ms {b}", USAGE, "did you mean delete?"),
    ("configs --entity-type topics {b}", USAGE, "a resource is written TYPE/NAME"),
    ("topics alter t {b}", USAGE, "trimaran topics alter needs --partitions"),
    ("topics list -o xml {b}", USAGE, "it must be one of table, wide, json, jsonl, yaml, kafka"),
    ("topics list --timeout 0 {b}", USAGE, "it must be more than 0"),
    ("topics list --timeout soon {b}", USAGE, "it is not a number"),
    ("partitions list t {b}", USAGE, "does not take 't'"),
    ("quorum history {b}", USAGE, "did you mean -B?"),
    ("brokers describe one {b}", USAGE, "IDS cannot be 'one'"),
    ("consume t --offset {b}", USAGE, "--offset has no value"),
    ("consume t -n -1 {b}", USAGE, "it must be at least 0"),
    ("sql --rows 0", USAGE, "it must be at least 1"),
    ("health {b} --watch=often", USAGE, "--watch=often is not a number of seconds"),
    ("generate completion tcsh", USAGE, "it must be one of bash, zsh, fish"),
    ("proxy --upstream {broker} --plan absent", USAGE, "cannot read the plan absent"),
    ("faults show commit-answered-lat", USAGE, "did you mean commit-answered-late?"),
    ("faults show", USAGE, "trimaran faults show needs PLAN"),
    ("up --control here --data empty", USAGE, "cannot listen on here"),
    (
        "proxy --upstream {broker} --listen 127.0.0.1:0 --control here",
        USAGE,
        "cannot listen on here",
    ),
    ("proxy --upstream {broker} --listen here", USAGE, "cannot listen on 'here'"),
    # Addresses.
    ("topics list -b 127.0.0.1:1", CANNOT_CONNECT, "nothing listens at 127.0.0.1:1"),
    ("quorum history -B 127.0.0.1:1", CANNOT_CONNECT, "nothing listens at 127.0.0.1:1"),
    ("topics list -b {controller}", USAGE, "is a controller's listener"),
    ("quorum status -B {broker}", USAGE, "is a broker's listener"),
    ("topics list -b 127.0.0.1", USAGE, "is not a list of addresses"),
    ("topics list --data empty", USAGE, "no broker to connect to"),
    ("topics list --profile nope", USAGE, "there is no profile nope"),
    ("topics list -X nope=1 {b}", USAGE, "cannot use -X nope=1"),
    ("topics list -X security.protocol=SSL {b}", CANNOT_CONNECT, "does not speak TLS, and this"),
    ("topics list -X security.protocol=X {b}", USAGE, "security.protocol=X (-X)"),
    ("topics list --command-config absent {b}", USAGE, "cannot read the configuration absent"),
    ("zk status -z 127.0.0.1:1", CANNOT_CONNECT, "nothing listens at 127.0.0.1:1"),
    ("zk verify -z {broker} {B}", CANNOT_CONNECT, "does not speak ZooKeeper's protocol"),
    ("zk get brokers -z 127.0.0.1:1", USAGE, "write /brokers"),
    ("metrics -a {broker}", CANNOT_CONNECT, "its trimaran.metrics.listener is set"),
    ("ps --data empty", USAGE, "no local cluster in"),
    ("proxy", USAGE, "trimaran proxy needs --upstream"),
    ("chaos kill 1 --data empty", USAGE, "no local cluster in"),
    # Topics and partitions.
    ("topics create t {b}", REFUSED, "TOPIC_ALREADY_EXISTS"),
    ("topics create u -r 99 {b}", REFUSED, "at most as many replicas as there are"),
    ("topics create bad/name {b}", REFUSED, "'bad/name' contains one or more characters"),
    ("topics create u --config nope=1 {b}", REFUSED, "nope"),
    ("topics create u --config retention.ms=x {b}", REFUSED, "Not a number of type LONG"),
    ("topics describe nope {b}", REFUSED, "there is no topic nope"),
    ("topics describe nope1 nope2 {b}", REFUSED, "there are no topics nope1, nope2"),
    ("topics describe no* {b}", REFUSED, "there is no topic no*"),
    ("topics delete t nope {b}", REFUSED, "there is no topic nope"),
    ("topics delete nope1 t nope2 {b}", REFUSED, "there are no topics nope1, nope2"),
    ("topics delete no* {b}", REFUSED, "trimaran topics list 'no*' shows the topics that match"),
    ("topics alter t* -p 3 {b}", REFUSED, "which no topic matches or this command does not take"),
    ("consume t* -e {b}", REFUSED, "it is a pattern, which no topic matches or this command does"),
    ("partitions list -t nope {b}", REFUSED, "there is no topic nope"),
    ("partitions list -t nope1 -t nope2 {b}", REFUSED, "there are no topics nope1, nope2"),
    ("log-dirs -t nope {b}", REFUSED, "there is no topic nope"),
    ("topics create u --config retention.ms {b}", USAGE, "a config is written KEY=VALUE"),
    ("topics create u --config retention=1 {b}", REFUSED, "did you mean retention.ms or retention"),
    ("topics create u --config nope=1 {b}", REFUSED, "configs get topic/NAME --all shows all"),
    (
        "configs set topic/t retention=1 {b}",
        REFUSED,
        "did you mean retention.ms or retention.bytes",
    ),
    ("topics alter t -p 1 {b}", REFUSED, "1 would not be an increase"),
    ("topics alter nope -p 3 {b}", REFUSED, "there is no topic nope"),
    ("topics delete nope {b}", REFUSED, "there is no topic nope"),
    ("topics delete nope --dry-run {b}", REFUSED, "there is no topic nope"),
    ("partitions elect-leader nope {b}", REFUSED, "there is no topic nope"),
    ("partitions history nope/0 {B}", REFUSED, "there is no topic nope"),
    ("partitions history t-0 {B}", USAGE, "it is written TOPIC/PARTITION"),
    ("reassign plan nope --to 1 {b}", REFUSED, "there is no topic nope"),
    ("reassign plan nope1 t nope2 --to 1 {b}", REFUSED, "there are no topics nope1, nope2"),
    ("reassign plan t --to 99 {b}", REFUSED, "broker 99 is not live"),
    ("reassign plan t --to 98 --to 99 {b}", REFUSED, "brokers 98, 99 are not live"),
    ("reassign apply absent {b}", USAGE, "cannot read absent"),
    ("reassign apply bad.json {b}", USAGE, "bad.json is not a reassignment plan"),
    ("reassign verify unknown.json {b}", USAGE, "unknown.json is not a reassignment plan"),
    # Records.
    ("produce t -p 9 {b}", USAGE, "topic t has no partition 9 (it has 2)"),
    ("produce t --file absent {b}", USAGE, "cannot use absent"),
    ("produce t --file empty {b}", USAGE, "Is a directory"),
    ("consume nope -e {b}", REFUSED, "there is no topic nope"),
    ("consume t --offset yesterday {b}", USAGE, "'yesterday' is not a position in a partition"),
    ("consume t --until @2026-13-45 {b}", USAGE, "'@2026-13-45' is not a position in a partition"),
    ("consume t --offset 99 -e {b}", REFUSED, "t-0 at offset 99, but it has no records"),
    ("consume t -f %q {b}", USAGE, "is not a token"),
    ("bench consume nope {b}", REFUSED, "there is no topic nope"),
    ("bench consume t {b}", NO, "trimaran bench produce t fills it"),
    ("records delete nope --before end {b}", REFUSED, "there is no topic nope"),
    ("records delete t {b}", USAGE, "trimaran records delete needs --before"),
    ("records delete t --before 99 {b}", REFUSED, "t-0 at offset 99, but it has no records"),
    ("records delete t --before end -p 9 {b}", USAGE, "topic t has no partition 9"),
    # Configs, features, brokers.
    ("configs list nope {b}", USAGE, "'nope' is not a type of resources"),
    ("configs get nope/x {b}", USAGE, "'nope/x' is not a resource with configs"),
    ("configs set tpic/x retention.ms=1 {b}", USAGE, "did you mean topic?"),
    ("configs set grup/g1 share.auto.offset.reset=earliest {b}", USAGE, "did you mean group?"),
    ("configs list client-metric {b}", USAGE, "did you mean client-metrics?"),
    ("configs get topic/t retenton.ms {b}", NO, "did you mean retention.ms?"),
    ("configs get topic/t nope nope2 {b}", NO, "topic/t has no config nope, nope2"),
    ("configs get topic/t* {b}", REFUSED, "trimaran topics list 't*' shows the topics that match"),
    ("configs get topic/nope {b}", REFUSED, "there is no topic nope"),
    ("configs set topic/nope retention.ms=1 {b}", REFUSED, "there is no topic nope"),
    ("configs delete topic/nope retention.ms {b}", REFUSED, "there is no topic nope"),
    ("configs set topic/t retention.ms {b}", USAGE, "'retention.ms' is not a config to set"),
    ("configs set topic/t nope=1 {b}", REFUSED, "Unknown topic config name: nope"),
    ("configs set broker/99 log.dirs=/x {b}", REFUSED, "broker 99 is not live"),
    ("configs set broker log.dirs=/x {b}", REFUSED, "log.dirs"),
    ("configs delete topic/t nope {b}", NO, "topic/t has no config nope"),
    ("configs history topic/nope {B}", REFUSED, "there is no topic nope"),
    ("features upgrade group.version {b}", USAGE, "'group.version' is not a feature level"),
    ("features upgrade metadata.version=99 {b}", REFUSED, "trimaran features list shows the sup"),
    ("log-dirs 99 {b}", USAGE, "does not take '99'"),
    ("log-dirs --broker 99 {b}", REFUSED, "broker 99 is not live"),
    ("brokers describe {b}", USAGE, "no broker was named"),
    ("brokers describe 99 {b}", REFUSED, "there is no broker 99"),
    ("brokers describe 98 99 {b}", REFUSED, "there are no brokers 98, 99"),
    # Groups, transactions.
    ("groups describe nope {b}", REFUSED, "there is no group nope"),
    ("groups describe {b}", USAGE, "no group was named"),
    ("groups describe nope1 nope2 {b}", REFUSED, "there are no groups nope1, nope2"),
    ("groups describe no* {b}", REFUSED, "trimaran groups list 'no*' shows the groups that match"),
    ("groups lag no* nope {b}", REFUSED, "there are no groups no*, nope"),
    ("groups delete no* {b}", REFUSED, "there is no group no*"),
    ("groups list --state stabel {b}", USAGE, "did you mean stable?"),
    ("groups lag nope {b}", REFUSED, "there is no group nope"),
    ("groups delete {b}", USAGE, "no group was named"),
    ("groups delete nope {b}", REFUSED, "there is no group nope"),
    ("groups delete nope --dry-run {b}", REFUSED, "there is no group nope"),
    ("groups delete-offsets nope -t t {b}", REFUSED, "there is no group nope"),
    ("groups reset-offsets g --to start {b}", REFUSED, "there is no group g"),
    ("consume t --share-group= {b}", USAGE, "--share-group is empty"),
    ("groups reset-offsets g --to start -t t:9 {b}", USAGE, "topic t has no partition 9"),
    ("groups reset-offsets g --to soon -t t {b}", USAGE, "'soon' is not a position in a partition"),
    ("groups reset-offsets g --to end -t t --execute --dry-run {b}", USAGE, "one of them"),
    ("groups migrate-offsets g -z 127.0.0.1:1 {b}", CANNOT_CONNECT, "nothing listens at"),
    ("transactions describe nope {b}", REFUSED, "there is no transactional id nope"),
    ("transactions describe {b}", USAGE, "no transactional id was named"),
    ("transactions describe x y {b}", REFUSED, "there are no transactional ids x, y"),
    ("transactions list --state Nope {b}", USAGE, "there is no state Nope"),
    ("transactions abort t {b}", USAGE, "transactions abort needs --partition"),
    # Access rights.
    ("users add u --password-file absent {b}", USAGE, "no password was given"),
    ("users add u --password-file empty.txt {b}", USAGE, "it is empty"),
    ("users remove nope {b}", REFUSED, "there is no user nope"),
    ("users list nope {b}", REFUSED, "there is no user nope"),
    ("users list nope1 nope2 {b}", REFUSED, "there are no users nope1, nope2"),
    ("acls list tpic/t {b}", USAGE, "did you mean topic?"),
    ("acls add User:a raed topic/t {b}", USAGE, "did you mean read?"),
    ("acls list {b}", REFUSED, "authorizer.class.name in the file of every node"),
    ("acls add User:a fly topic/t {b}", USAGE, "'fly' is not an operation"),
    ("acls add User:a read planet/t {b}", USAGE, "'planet/t' is not a resource of ACLs"),
    ("tokens create {b}", REFUSED, "over SASL or TLS"),
    ("tokens renew abc {b}", USAGE, "this is not an HMAC"),
    ("quotas set planet=a x=1 {b}", USAGE, "'planet=a' is not a quota"),
    ("quotas set user=a nope=5 {b}", REFUSED, "nope"),
    ("quotas delete user=nope {b}", NO, "there is no such quota"),
    # The metadata, in a running cluster and on disk.
    ("metadata image {B} --at 999999", USAGE, "has no offset 999999"),
    ("metadata image {B} --as-of 2001-01-01", USAGE, "does not reach back to that time"),
    ("metadata image absent", USAGE, "absent does not exist"),
    ("metadata dump bad.json", USAGE, "no metadata log in bad.json"),
    ("metadata verify empty", USAGE, "no metadata log in empty"),
    ("metadata tail {B} --start soon", USAGE, "'soon' is not a position in a partition"),
    ("quorum voters remove 99 {B}", NO, "node 99 is not a voter"),
    ("quorum voters remove 1 {B}", REFUSED, "kraft.version feature is 0"),
    ("quorum voters remove 1 {B} --dry-run", REFUSED, "kraft.version is 0"),
    ("quorum unregister 99 {B}", REFUSED, "Controller ID 99 is not currently registered"),
    ("quorum unregister 99 {B} --dry-run", REFUSED, "controller 99 is not registered"),
    # Files of nodes.
    ("logs dump absent", USAGE, "no log in absent"),
    ("logs dump empty", USAGE, "no log in empty"),
    ("wire decode absent", USAGE, "cannot use absent"),
    ("config check -c absent", USAGE, "cannot read the configuration absent"),
    ("config explain retention.m", NO, "did you mean retention.ms"),
    ("config diff bad.properties absent", USAGE, "cannot read the configuration absent"),
    ("storage info -c bad.properties", USAGE, "the configuration is wrong: node.id=many"),
    ("storage format -t x -c absent", USAGE, "cannot read the configuration absent"),
    ("broker start -c absent", USAGE, "cannot read the configuration absent"),
    ("controller start -c absent", USAGE, "cannot read the configuration absent"),
    ("server start -c absent", USAGE, "cannot read the configuration absent"),
    ("analyze nope --data empty", USAGE, "no analysis is called nope"),
    ("analyze --since yesterday --data empty", USAGE, "--since yesterday is not a time"),
)


@pytest.fixture
def told_of_mistakes(tmp_path, monkeypatch, capfd):
    """Checks each of them with a running cluster: three lines on stderr, nothing on stdout, the exit code."""
    (tmp_path / "empty").mkdir()
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("trimaran.cli.app._end_like_ctrl_c", lambda: None)  # this process continues
    # A command that starts a server adds a handler, which would write to this test's standard error from then on.
    monkeypatch.setattr(logging.getLogger(), "handlers", [])

    def check(mistake, addresses):
        line, code, told = mistake
        with pytest.raises(SystemExit) as end:
            run(line.format(**addresses).split())
        out, err = capfd.readouterr()
        heads = [text.split(":")[0].strip() for text in err.splitlines()]
        assert (heads[-3:], out) == (["error", "why", "fix"], ""), err
        assert told in err, err
        assert end.value.code == code, err

    def check_all(broker, controller):
        addresses = {"broker": broker, "controller": controller}
        addresses |= {"b": f"-b {broker}", "B": f"-B {controller}"}
        check_each(MISTAKES, lambda mistake: check(mistake, addresses))

    return check_all
