"""A Kerberos realm for a test: MIT's key distribution center (KDC) from Debian's packages, in a directory of its own.

apt-get install krb5-kdc krb5-admin-server krb5-user libkrb5-dev
pip install 'trimaran[kerberos]'
"""

import contextlib
import importlib.util
import os
import shutil
import socket
import subprocess

from tests.cluster.processes import until

REALM = "EXAMPLE.COM"
PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/bin"
PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")
STOP_SECONDS_MAX = 10
SKEW_SECONDS = 5
KRB5_CONF = """
[libdefaults]
  default_realm = {realm}
  dns_lookup_realm = false
  dns_lookup_kdc = false
  dns_canonicalize_hostname = false
  rdns = false
  udp_preference_limit = 1
  {more}
[realms]
  {realm} = {{
    kdc = 127.0.0.1:{port}
  }}
"""
KDC_CONF = """
[kdcdefaults]
  kdc_ports = ""
  kdc_tcp_ports = {port}
  kdc_listen = ""
  kdc_tcp_listen = 127.0.0.1:{port}
[realms]
  {realm} = {{
    database_name = {dir}/principal
    key_stash_file = {dir}/stash
    acl_file = {dir}/kadm5.acl
    max_life = 10h
  }}
"""


def why_not():
    """Returns the reason why no realm can be made here; None if it can."""
    missing = [name for name in PROGRAMS if shutil.which(name, path=PATH) is None]
    if missing:
        return f"needs {', '.join(missing)}: apt-get install krb5-kdc krb5-admin-server krb5-user"
    if importlib.util.find_spec("gssapi") is None:
        return "needs gssapi: apt-get install libkrb5-dev, pip install 'trimaran[kerberos]'"
    return None


class Realm:
    """The realm in a directory; its KDC listens on a port of this machine."""

    def __init__(self, directory, port):
        self.dir, self.port = directory, port
        self.conf = directory / "krb5.conf"
        self.environ = {
            **os.environ,
            "PATH": PATH,
            "KRB5_CONFIG": str(self.conf),
            "KRB5_KDC_PROFILE": str(directory / "kdc.conf"),
            "KRB5RCACHEDIR": str(directory),
        }
        names = {"realm": REALM, "port": port, "dir": directory}
        self.conf.write_text(KRB5_CONF.format(**names, more=""))
        # With a small skew, a ticket is refused soon after its end.
        self.kdc_conf = directory / "krb5-of-kdc.conf"
        self.kdc_conf.write_text(KRB5_CONF.format(**names, more=f"clockskew = {SKEW_SECONDS}"))
        (directory / "kdc.conf").write_text(KDC_CONF.format(**names))
        self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", "of-the-realm")

    def _run(self, *words, environ=None, check=True):
        command = list(map(str, words))
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            env={**self.environ, **(environ or {})},
        )
        assert not check or done.returncode == 0, (command, done.stdout, done.stderr)
        return done

    def kadmin(self, query):
        return self._run("kadmin.local", "-r", REALM, "-q", query)

    def keytab(self, *principals):
        """Returns the keytab of these principals, which get random keys at the first call."""
        file = self.dir / (principals[0].replace("/", "-") + ".keytab")
        if file.exists():
            return file
        for principal in principals:
            self.kadmin(f"addprinc -randkey {principal}")
            self.kadmin(f"ktadd -k {file} {principal}")
        assert file.exists()
        return file

    def ticket(self, principal, keytab, *options):
        """Returns a new ticket cache with a ticket for the principal."""
        cache = self.dir / f"{principal}.cache"
        self._run("kinit", *options, "-c", cache, "-k", "-t", keytab, principal)
        return cache

    @contextlib.contextmanager
    def running(self):
        """Runs the KDC until the end of the block."""
        with (self.dir / "kdc.log").open("ab") as log:
            environ = {**self.environ, "KRB5_CONFIG": str(self.kdc_conf)}
            command = ["krb5kdc", "-n", "-r", REALM]
            process = subprocess.Popen(command, env=environ, stdout=log, stderr=log)
        try:
            until(self._listens, "the KDC listens")
            yield self
        finally:
            process.terminate()
            process.wait(STOP_SECONDS_MAX)

    def _listens(self):
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", self.port)) == 0
