"""PostgreSQL servers and a PgBouncer of the test's own, which the test may stop."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from tests.resilience.processes import eventually, kill
from tests.running.conftest import descendants, free_port


def find_programs() -> Path | None:
    """Return the folder of the newest installed PostgreSQL server's programs, None where there is none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return found[-1].parent if found else None


class OwnPostgres:
    """A PostgreSQL cluster in a temporary folder. PostgreSQL refuses to run as root, so root runs it as `postgres`.

    `within` is the start of a command that runs the rest elsewhere, such as in a network namespace.
    """

    def __init__(
        self, programs: Path, address: str = "127.0.0.1", within: Sequence[str] = (), options: str = ""
    ) -> None:
        self._programs, self._within, self._options = programs, within, options
        self._folder = Path(tempfile.mkdtemp(prefix="handoffaudit-postgres-"))
        self.address, self.port = address, free_port()
        if os.geteuid() == 0:
            os.chown(self._folder, pwd.getpwnam("postgres").pw_uid, -1)
        self._run("initdb", "--pgdata", f"{self._folder}/data", "--username", "postgres", "--auth", "trust")
        with (self._folder / "data" / "pg_hba.conf").open("a") as rules:
            rules.write("host all all samenet trust\nhost replication all samenet trust\n")

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), *arguments]
        if os.geteuid() == 0:
            command = ["runuser", "--user", "postgres", "--", *command]
        subprocess.run([*self._within, *command], cwd="/", check=True, stdout=subprocess.DEVNULL, timeout=120)

    @property
    def url(self) -> str:
        return f"postgresql://postgres@{self.address}:{self.port}/postgres"

    def start(self) -> None:
        options = (
            f"-c listen_addresses={self.address} -c port={self.port} -c unix_socket_directories= -c max_connections=60"
            f" {self._options}"
        )
        self._run(
            "pg_ctl",
            "--pgdata",
            f"{self._folder}/data",
            "--wait",
            "--options",
            options,
            "-l",
            f"{self._folder}/log",
            "start",
        )
        eventually(lambda: answers(self.url))

    def replicate(self, address: str = "127.0.0.1", within: Sequence[str] = ()) -> "OwnPostgres":
        """Return a started replica of this server, which must run."""
        replica = OwnPostgres.__new__(OwnPostgres)
        replica._programs, replica._within, replica._options = self._programs, within, self._options
        replica._folder = Path(tempfile.mkdtemp(prefix="handoffaudit-replica-"))
        replica.address, replica.port = address, free_port()
        if os.geteuid() == 0:
            os.chown(replica._folder, pwd.getpwnam("postgres").pw_uid, -1)
        source = ["--host", self.address, "--port", str(self.port), "--username", "postgres"]
        arguments = ["--pgdata", f"{replica._folder}/data", "--write-recovery-conf", "--checkpoint", "fast"]
        replica._run("pg_basebackup", *source, *arguments)
        replica.start()
        return replica

    def stop(self) -> None:
        self._run("pg_ctl", "--pgdata", f"{self._folder}/data", "--mode", "immediate", "stop")

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Let the server answer nothing and keep all connections open."""
        main = int((self._folder / "data" / "postmaster.pid").read_text().split()[0])
        # The server starts no process while it is stopped.
        os.kill(main, signal.SIGSTOP)
        processes = [main, *descendants(main)]
        try:
            for process in processes:
                os.kill(process, signal.SIGSTOP)
            yield
        finally:
            for process in processes:
                os.kill(process, signal.SIGCONT)

    def remove(self) -> None:
        """Stop the server where it runs, and remove its folder."""
        if (self._folder / "data" / "postmaster.pid").exists():
            self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)


@contextmanager
def run_bouncer(
    postgres: OwnPostgres,
    *,
    pool: int,
    address: str = "127.0.0.1",
    within: Sequence[str] = (),
    options: str = "",
) -> Iterator[str]:
    """Run PgBouncer in transaction mode with `pool` connections to the server, and yield the URL of its database.

    Root runs PgBouncer as `postgres`, who may not read the folders of tests.
    """
    program = shutil.which("pgbouncer", path="/usr/sbin:/usr/bin:/usr/local/bin")
    if program is None:
        pytest.fail("pgbouncer is not installed")
    folder = Path(tempfile.mkdtemp(prefix="handoffaudit-pgbouncer-"))
    port, file = free_port(), folder / "pgbouncer.ini"
    file.write_text(
        f"[databases]\npostgres = host={postgres.address} port={postgres.port} user=postgres\n"
        f"[pgbouncer]\nlisten_addr = {address}\nlisten_port = {port}\nauth_type = any\npool_mode = transaction\n"
        f"default_pool_size = {pool}\nmax_client_conn = 200\nunix_socket_dir =\n{options}"
    )
    command = [program, str(file)]
    if os.geteuid() == 0:
        for path in (folder, file):
            os.chown(path, pwd.getpwnam("postgres").pw_uid, -1)
        command = ["runuser", "--user", "postgres", "--", *command]
    process = subprocess.Popen(
        [*within, *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    url = f"postgresql://postgres@{address}:{port}/postgres"
    try:
        eventually(lambda: answers(url))
        yield url
    finally:
        kill(process)
        shutil.rmtree(folder)


def answers(url: str) -> bool:
    """Return whether a PostgreSQL server or a PgBouncer takes a connection."""
    try:
        psycopg.connect(url, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True
