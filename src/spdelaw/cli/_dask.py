"""``--dask``: where a command works on lazy data."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from spdelaw.errors import ExecutorError, InputError, MissingExtraError

Machines = Annotated[
    str | None,
    typer.Option(
        help="Workers for a .zarr: local:4 starts four here, tcp://host:8786 is a scheduler.",
        rich_help_panel="Engine",
    ),
]
#: Seconds to wait for a scheduler.
PATIENCE = 15


@contextlib.contextmanager
def machines(where: str | None) -> Iterator[Any]:
    """A Dask client while a command runs; None where none was asked for."""
    if where is None:
        yield None
        return
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise MissingExtraError("--dask", "distributed") from error
    workers = _local_workers(where)
    if workers:
        with (
            LocalCluster(
                n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=":0"
            ) as cluster,
            Client(cluster) as client,
        ):
            yield client
        return
    with _connected(Client, where) as client:
        yield client


def _local_workers(where: str) -> int:
    """Number of workers to start here; 0 where an address is given."""
    kind, _, count = where.partition(":")
    if kind == "local" and count.isdecimal() and int(count) > 0:
        return int(count)
    if kind in ("tcp", "tls", "ws", "wss") and count.startswith("//"):
        return 0
    got, fix = repr(where), "pass --dask local:4, or --dask tcp://host:8786"
    raise InputError("--dask", expected="local:4, or the address of a scheduler", got=got, fix=fix)


def _connected(client: Any, address: str) -> Any:
    try:
        return client(address, timeout=PATIENCE)
    except (OSError, TimeoutError, ValueError) as error:
        expected = f"a Dask scheduler at {address}"
        fix = "start one with dask scheduler, or check the address"
        raise ExecutorError("--dask", expected=expected, got=f"none ({error})", fix=fix) from error
