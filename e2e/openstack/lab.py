#!/usr/bin/env python3
"""A real Keystone and a real Neutron API server on loopback, with something in them.

    lab.py install [--dir DIR]      the packages of requirements.txt, into DIR/venv
    lab.py serve [--dir DIR] [...]  starts, seeds, says "ready DIR/lab.json", serves until its
                                    standard input closes or SIGINT or SIGTERM comes

Everything lies below DIR (mode 0700): the venv, what was made (state/), logs (log/). What is there
is used again; --fresh makes the state anew. Ports are free ones and differ from run to run.
lab.json holds all addresses, ids and secrets; clouds.yaml serves the OpenStack clients. Standard
library only up to the venv; whatever is started ends with this process, however it ends.
"""

import argparse
import base64
import ctypes
import fcntl
import json
import os
import secrets
import select
import shutil
import signal
import socket
import string
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
STARTED = time.monotonic()
SBIN = "/usr/local/sbin:/usr/sbin:/sbin"


class Failed(Exception):
    """A sentence for the one who started us."""


def say(text):
    print(f"[{time.monotonic() - STARTED:6.1f} s] {text}", file=sys.stderr, flush=True)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = os.environ.get("CIV_OPENSTACK_DIR") or "target/openstack"
    commands = parser.add_subparsers(dest="command", required=True)
    install = commands.add_parser("install", help="only install the packages")
    serve = commands.add_parser("serve", help="start, seed, serve until standard input closes")
    for command in (install, serve):
        command.add_argument("--dir", type=Path, default=Path(default), help=f"[{default}]")
    serve.add_argument(
        "--db",
        choices=["auto", "mariadb", "sqlite"],
        default=os.environ.get("CIV_OPENSTACK_DB") or "auto",
        help="auto: MariaDB where it is installed; $CIV_OPENSTACK_DB is the default",
    )
    serve.add_argument("--fresh", action="store_true", help="forget what is there")
    serve.add_argument("--floating-ips", type=int, default=330)
    serve.add_argument("--token-seconds", type=int, default=3600, help="how long tokens live")
    serve.add_argument(
        "--brief-seconds", type=int, default=15, help="the same of the second, brief Keystone"
    )
    serve.add_argument("--page-max", type=int, default=-1, help="Neutron's pagination_max_limit")
    serve.add_argument(
        "--network-url", help="what the catalog calls the public network endpoint [Neutron itself]"
    )
    return parser.parse_args()


# ---------------------------------------------------------------------------------------- install


def requirements():
    return (HERE / "requirements.txt").read_text(encoding="utf-8")


def install(home):
    """Makes home/venv, or leaves one alone that was made from the same list."""
    venv, mark = home / "venv", home / "venv/installed.txt"
    if mark.is_file() and mark.read_text(encoding="utf-8") == requirements():
        return venv
    if sys.version_info < (3, 10):
        raise Failed(f"Python 3.10 or newer is needed, and {sys.executable} is older")
    say("installing Keystone, Neutron and the clients from PyPI")
    shutil.rmtree(venv, ignore_errors=True)
    home.mkdir(parents=True, exist_ok=True)
    pip = [venv / "bin/python", "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    run([sys.executable, "-m", "venv", venv], home / "log/install.log")
    # The list is complete, so nothing has to be resolved.
    wanted = ["--no-deps", "--prefer-binary", "-r", HERE / "requirements.txt"]
    run([*pip, *wanted], home / "log/install.log")
    mark.write_text(requirements(), encoding="utf-8")
    return venv


def run(command, log, stdin=subprocess.DEVNULL, env=None):
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as out:
        done = subprocess.run(command, stdin=stdin, stdout=out, stderr=out, env=env, check=False)
    if done.returncode != 0:
        last = log.read_text(errors="replace").strip().splitlines()[-1:]
        name = " ".join(str(word) for word in command[:3])
        raise Failed(f"{name} … ended with {done.returncode}: {' '.join(last)} (all: {log})")


# ------------------------------------------------------------------------------------ processes


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Server:
    """A child that ends with us, and before if we say so."""

    def __init__(self, name, command, log, env=None):
        self.name, self.log = name, log
        with log.open("ab") as out:
            self.process = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=env,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )

    def until(self, what, seconds, condition):
        end = time.monotonic() + seconds
        while not condition():
            if self.process.poll() is not None:
                raise Failed(f"{self.name} ended with {self.process.returncode}: see {self.log}")
            if time.monotonic() > end:
                raise Failed(f"{self.name} did not {what} within {seconds} s: see {self.log}")
            time.sleep(0.1)

    def end(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()


def free_ports(n):
    taken = [socket.socket() for _ in range(n)]
    for each in taken:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in taken]
    for each in taken:
        each.close()
    return ports


# --------------------------------------------------------------------------------------- database


class Sqlite:
    kind, mark = "sqlite", "?"

    def __init__(self, state, _log):
        self.state = state

    def url(self, name):
        return f"sqlite:///{self.state}/{name}.db?timeout=60"

    def start(self):
        return None

    def connect(self, name):
        import sqlite3

        return sqlite3.connect(self.state / f"{name}.db", timeout=60)

    def make_neutron(self, lab):
        """Neutron's migrations refuse SQLite, so the tables are made from its models."""
        script = (
            "import sys; from sqlalchemy import create_engine;"
            "from neutron.db.migration.models import head;"
            "head.get_metadata().create_all(create_engine(sys.argv[1]))"
        )
        run([lab.bin / "python", "-c", script, self.url("neutron")], lab.log / "neutron-db.log")
        self.connect("neutron").execute("pragma journal_mode = wal")


class MariaDb:
    kind, mark = "mariadb", "%s"
    tables = "/usr/share/mysql"

    def __init__(self, state, log):
        self.home, self.log = state / "mariadb", log / "mariadb.log"
        self.socket = str(self.home / "socket")
        if len(self.socket) > 100:  # of 107 that a socket's path may have
            self.socket = f"{tempfile.gettempdir()}/civ-openstack-{os.getpid()}.socket"

    def url(self, name):
        return f"mysql+pymysql://root@localhost/{name}?unix_socket={self.socket}"

    def start(self):
        data = self.home / "data"
        # No one else's data, so a power cut may cost it all.
        common = [
            shutil.which("mariadbd"),
            "--no-defaults",
            f"--datadir={data}",
            f"--user={user_name()}",
            "--innodb-doublewrite=0",
            "--innodb-flush-log-at-trx-commit=0",
            "--innodb-log-file-size=64M",
            "--skip-grant-tables",
        ]
        fresh = not (self.home / "made").exists()
        if fresh:
            shutil.rmtree(data, ignore_errors=True)
            data.mkdir(parents=True)
            parts = ["system_tables", "performance_tables", "system_tables_data"]
            sql = "create database mysql;\nuse mysql;\n" + "\n".join(
                Path(f"{self.tables}/mysql_{part}.sql").read_text(encoding="utf-8")
                for part in parts
            )
            with tempfile.TemporaryFile() as script:
                script.write(sql.encode())
                script.seek(0)
                run([*common, "--bootstrap"], self.log, stdin=script)
        more = [f"--socket={self.socket}", "--skip-networking", "--max-connections=300"]
        server = Server("mariadbd", [*common, *more], self.log)
        server.until("listen", 60, lambda: os.path.exists(self.socket))
        if fresh:
            for name in ("keystone", "neutron"):
                self.connect(None).cursor().execute(f"create database {name} charset utf8mb3")
            (self.home / "made").touch()
        return server

    def connect(self, name):
        import pymysql

        return pymysql.connect(unix_socket=self.socket, user="root", database=name)

    def make_neutron(self, lab):
        files = [f"--config-file={lab.state}/neutron.conf"]
        command = [lab.bin / "neutron-db-manage", *files, "upgrade", "heads"]
        run(command, lab.log / "neutron-db.log", env=lab.env)


def user_name():
    import pwd

    return pwd.getpwuid(os.getuid()).pw_name


# -------------------------------------------------------------------------------------------- lab


class Lab:
    def __init__(self, args):
        self.args = args
        self.home = args.dir.resolve()
        self.venv, self.bin = self.home / "venv", self.home / "venv/bin"
        self.state, self.log = self.home / "state", self.home / "log"
        if args.fresh:
            shutil.rmtree(self.state, ignore_errors=True)
        for folder in (self.state, self.log):
            folder.mkdir(parents=True, exist_ok=True)
        self.secret = self.once("secret", lambda: secrets.token_urlsafe(18))
        self.database = self.choose_database()
        self.keystone_port, self.brief_port, self.neutron_port = free_ports(3)
        self.auth_url = f"http://127.0.0.1:{self.keystone_port}/v3"
        # On the same database, with tokens that end soon.
        self.brief_auth_url = f"http://127.0.0.1:{self.brief_port}/v3"
        self.network_url = f"http://127.0.0.1:{self.neutron_port}"
        self.stand_in = self.home / "stand-in.json"
        self.servers = []
        self.env = {
            **{k: v for k, v in os.environ.items() if not k.startswith("OS_")},
            "PATH": f"{self.bin}:{os.environ.get('PATH', '')}:{SBIN}",
            "PYTHONPATH": str(self.state / "plugin"),
            "PYTHONWARNINGS": "ignore",
            "CIV_STAND_IN": str(self.stand_in),
        }

    def once(self, name, make):
        file = self.state / name
        if not file.exists():
            file.write_text(make(), encoding="utf-8")
        return file.read_text(encoding="utf-8")

    def choose_database(self):
        wanted, there = self.args.db, shutil.which("mariadbd")
        if wanted == "auto":
            wanted = "mariadb" if there else "sqlite"
        kind = self.once("database", lambda: wanted)
        if self.args.db not in ("auto", kind):
            raise Failed(f"{self.state} was made with {kind}: add --fresh, or another --dir")
        if kind == "mariadb" and not there:
            raise Failed("mariadbd is not there: apt-get install mariadb-server-core")
        return {"mariadb": MariaDb, "sqlite": Sqlite}[kind](self.state, self.log)

    def configure(self):
        for name, service, seconds in (
            ("keystone", "keystone", self.args.token_seconds),
            ("keystone-brief", "keystone", self.args.brief_seconds),
            ("neutron", "neutron", None),
        ):
            home = self.state / service
            (home / "lock").mkdir(parents=True, exist_ok=True)
            template = string.Template((HERE / f"{service}.conf.in").read_text(encoding="utf-8"))
            text = template.substitute(
                home=home,
                log=f"{self.log}/{name}.log",
                venv=self.venv,
                database=self.database.url(service),
                auth_url=self.auth_url,
                secret=self.secret,
                token_seconds=seconds,
                page_max=self.args.page_max,
            )
            (self.state / f"{name}.conf").write_text(text, encoding="utf-8")
        for keys in ("fernet", "credential"):
            folder = self.state / "keystone" / keys
            folder.mkdir(exist_ok=True)
            for number in ("0", "1"):
                if not (folder / number).exists():
                    key = base64.urlsafe_b64encode(os.urandom(32))
                    (folder / number).write_bytes(key)
        self.stand_in.write_text('{"delay": 0.3}\n', encoding="utf-8")
        self.install_plugin()

    def install_plugin(self):
        """stand_in.py where Python finds it, with the entry point by which Neutron finds it."""
        folder = self.state / "plugin"
        facts = folder / "civ_stand_in-1.dist-info"
        facts.mkdir(parents=True, exist_ok=True)
        shutil.copy(HERE / "stand_in.py", folder)
        (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: civ-stand-in\nVersion: 1\n")
        (facts / "entry_points.txt").write_text(
            "[neutron.ml2.mechanism_drivers]\nstand_in = stand_in:BindAll\n"
        )

    def make_keystone(self):
        manage = [self.bin / "keystone-manage", f"--config-file={self.state}/keystone.conf"]
        log = self.log / "keystone-db.log"
        run([*manage, "db_sync"], log, env=self.env)
        urls = [f"--bootstrap-{kind}-url={self.auth_url}/" for kind in ("public", "internal")]
        region = ["--bootstrap-region-id=RegionOne", f"--bootstrap-admin-url={self.auth_url}/"]
        password = f"--bootstrap-password={self.secret}"
        run([*manage, "bootstrap", password, *region, *urls], log, env=self.env)

    def make_databases(self):
        """Both at once: each is one process that computes."""
        makers = {"keystone": self.make_keystone, "neutron": lambda: self.database.make_neutron(self)}
        todo = {n: make for n, make in makers.items() if not (self.state / f"{n}/made").exists()}
        if todo:
            say(f"making the databases of {' and '.join(todo)}")
        faults = []

        def make(name):
            try:
                todo[name]()
                (self.state / f"{name}/made").touch()
            except (Failed, OSError, subprocess.SubprocessError) as error:
                faults.append(error)

        threads = [threading.Thread(target=make, args=[name]) for name in todo]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if faults:
            raise Failed(str(faults[0]))

    def serve(self, name, port, processes):
        service = name.split("-")[0]
        option = service.upper()
        env = {
            **self.env,
            f"OS_{option}_CONFIG_DIR": str(self.state),
            f"OS_{option}_CONFIG_FILES": f"{name}.conf",
        }
        command = [
            self.bin / "uwsgi",
            f"--http11-socket=127.0.0.1:{port}",
            f"--module={service}.wsgi.api:application",
            "--master",
            f"--processes={processes}",
            "--threads=16",
            "--enable-threads",
            "--lazy-apps",
            "--need-app",
            "--die-on-term",
            "--no-orphans",
            "--buffer-size=65535",
            "--so-keepalive",
        ]
        server = Server(name, command, self.log / f"{name}-uwsgi.log", env)
        self.servers.append(server)
        return server

    def start(self):
        self.configure()
        server = self.database.start()
        self.servers += [server] if server else []
        self.make_databases()
        say(f"starting Keystone and Neutron on {self.database.kind}")
        # Neutron asks Keystone at its first request and not before, so they start together.
        processes = 2 if self.database.kind == "mariadb" else 1
        keystone = self.serve("keystone", self.keystone_port, 1)
        neutron = self.serve("neutron", self.neutron_port, processes)
        brief = self.serve("keystone-brief", self.brief_port, 1)
        import seed

        keystone.until("answer", 90, lambda: seed.answers(self.auth_url))
        neutron.until("answer", 120, lambda: seed.answers(f"{self.network_url}/"))
        brief.until("answer", 90, lambda: seed.answers(self.brief_auth_url))

    def stop(self):
        for server in reversed(self.servers):
            server.end()
        if isinstance(self.database, MariaDb):
            Path(self.database.socket).unlink(missing_ok=True)

    def publish(self, facts):
        """lab.json for programs, clouds.yaml for the OpenStack clients; both for us alone."""
        file = self.home / "lab.json"
        file.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")

        def cloud(user, project):
            who = {"username": user, "password": self.secret, "project_name": project}
            where = {"auth_url": self.auth_url, "user_domain_id": "default"}
            auth = {**where, **who, "project_domain_id": "default"}
            return {"auth": auth, "region_name": "RegionOne", "interface": "public"}

        # JSON is YAML.
        clouds = {
            "validator": cloud("validator", "validator"),
            "other": cloud("other", "other"),
            "admin": cloud("admin", "admin"),
        }
        text = json.dumps({"clouds": clouds}, indent=2)
        (self.home / "clouds.yaml").write_text(text + "\n", encoding="utf-8")
        return file


def wait_for_the_end(lab):
    """Until standard input closes, a signal comes, or a server ends by itself (which is told)."""
    while True:
        ready, _, _ = select.select([sys.stdin], [], [], 1)
        if ready and not os.read(sys.stdin.fileno(), 4096):
            return
        for server in lab.servers:
            if server.process.poll() is not None:
                raise Failed(f"{server.name} ended with {server.process.returncode}: {server.log}")


def serve(args):
    # Two labs in one folder would be in each other's way.
    args.dir.mkdir(parents=True, exist_ok=True)
    with (args.dir / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise Failed(f"another lab serves from {args.dir}") from error
        lab = Lab(args)
        try:
            lab.start()
            say("seeding")
            import seed

            file = lab.publish(seed.seed(lab))
            say("ready")
            print(f"ready {file}", flush=True)
            wait_for_the_end(lab)
        finally:
            lab.stop()


def to_venv(venv):
    """From here on with the venv's own packages."""
    if Path(sys.prefix) != venv.resolve():
        python = str(venv / "bin/python")
        os.execv(python, [python, "-W", "ignore", str(HERE / "lab.py"), *sys.argv[1:]])


def main():
    os.umask(0o077)
    os.environ["PATH"] = f"{os.environ.get('PATH', '/usr/bin:/bin')}:{SBIN}"
    args = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        venv = install(args.dir.resolve())
        if args.command == "serve":
            to_venv(venv)
            serve(args)
    except Failed as error:
        print(f"lab.py: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
