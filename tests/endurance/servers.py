"""A PostgreSQL server of the test's own, which the test may stop."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tests.resilience.processes import eventually
from tests.running.conftest import descendants, free_port


def find_programs() -> Path | None:
    """Return the folder of the newest installed PostgreSQL server's programs, None where there is none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return found[-1].parent if found else None


class OwnPostgres:
    """A PostgreSQL cluster in a temporary folder. PostgreSQL refuses to run as root, so root runs it as `postgres`."""

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        self._folder = Path(tempfile.mkdtemp(prefix="handoffaudit-postgres-"))
        self.port = free_port()
        if os.geteuid() == 0:
            os.chown(self._folder, pwd.getpwnam("postgres").pw_uid, -1)
        self._run("initdb", "--pgdata", f"{self._folder}/data", "--username", "postgres", "--auth", "trust")

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), *arguments]
        if os.geteuid() == 0:
            command = ["runuser", "--user", "postgres", "--", *command]
        subprocess.run(command, cwd="/", check=True, stdout=subprocess.DEVNULL, timeout=120)

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        options = f"-c listen_addresses=127.0.0.1 -c port={self.port} -c unix_socket_directories= -c max_connections=60"
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
        eventually(self._answers)

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def replicate(self) -> "OwnPostgres":
        """Return a started replica of this server, which must run."""
        replica = OwnPostgres.__new__(OwnPostgres)
        replica._programs, replica._folder = self._programs, Path(tempfile.mkdtemp(prefix="handoffaudit-replica-"))
        replica.port = free_port()
        if os.geteuid() == 0:
            os.chown(replica._folder, pwd.getpwnam("postgres").pw_uid, -1)
        source = ["--host", "127.0.0.1", "--port", str(self.port), "--username", "postgres"]
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
