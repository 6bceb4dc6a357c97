"""The replicas in the directories of a tablet server that does not run, for its administrator (Kudu: `local_replica`).

    list      every replica: its table, the state of its files, its term, and its peers
    delete    its data; a tombstone stays, with the term and the vote

The directories are locked meanwhile, so the server cannot be started. When it starts, it reports what it has: the
masters delete replicas of tablets that do not name the server, and a leader copies the data that a peer lacks.

A replica that is deleted here may have had the only other copy of acknowledged entries. The masters' own repair removes
a peer from the configuration first, and has it copied before it votes again. Data are not copied from another server
here: the copy would lack entries that the replica has acknowledged, and that its leader therefore never sends again. A
leader notices that a server has only a tombstone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import TracebackType

from ...errors import CorruptionError, InterfaceError, did_you_mean
from ...model.lazy_dataclass import dataclass
from ...storage.files.checked_file import read_checked
from ...storage.files.filesystem import FileSystem
from ..consensus.consensus_file import NAME as CONSENSUS_FILE
from ..consensus.consensus_file import ConsensusState, read_consensus
from ..raft.messages import Peer
from ..tablets.bootstrap import remove_data
from ..tablets.superblock import ReplicaState, Superblock
from .directories import INSTANCE_MAGIC, VERSION, DataDirectory, ServerDirectories


@dataclass(frozen=True, slots=True)
class LocalReplica:
    """A replica's files. `state`: that of its superblock, or FAILED with an `error`. `peers`: of the newest committed
    configuration. `bytes`: of all its files."""

    tablet_id: str
    table: str
    place: str
    state: str
    term: int
    peers: tuple[Peer, ...]
    bytes: int
    path: str
    error: str = ""


class LocalReplicas:
    """The replicas of the server in a directory; a context manager, which locks the directories.

    Parameters
    ----------
    fs : FileSystem
    directory : str
        The server's own (--dir); it knows its further data directories.

    Raises
    ------
    InterfaceError
        There is no tablet server in the directory.
    StoreLocked
        The server runs.
    """

    def __init__(self, fs: FileSystem, directory: str):
        self._fs = fs
        path = directory.rstrip("/") or "/"
        if not fs.exists(f"{path}/FORMAT") or not fs.exists(f"{path}/instance"):
            raise InterfaceError(f"{path} holds no tablet server; specify the --dir of one")
        instance = read_checked(fs, f"{path}/instance", INSTANCE_MAGIC, VERSION)
        self._directories = ServerDirectories(fs, path, list(instance.get("directories", {}).values()))
        self.server = self._directories.id
        """The server's id."""

    def __enter__(self) -> LocalReplicas:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._directories.release()

    def list(self) -> Sequence[LocalReplica]:
        """Returns all replicas, by tablet."""
        return [self._read(found.id, found.directory) for found in self._directories.existing_tablets()]

    def delete(self, tablet_id: str) -> LocalReplica:
        """Deletes a replica's data, leaving a tombstone; returns what it was. Raises `InterfaceError` if there is
        none, `CorruptionError` if its term and vote cannot be read and so cannot be kept."""
        found = self._found(tablet_id)
        if found.state == ReplicaState.TOMBSTONED:
            raise InterfaceError(f"the replica of tablet {tablet_id} is a tombstone, without data")
        superblock = Superblock.read(self._fs, found.path)
        if superblock is None:
            raise InterfaceError(f"the remains of tablet {tablet_id} are removed when the server starts")
        read_consensus(self._fs, found.path)
        Superblock(superblock.tablet, ReplicaState.TOMBSTONED).write(self._fs, found.path)
        remove_data(self._fs, found.path)
        return found

    # ---- parts -----------------------------------------------------------------------------------------------------

    def _found(self, tablet_id: str) -> LocalReplica:
        known = {replica.tablet_id: replica for replica in self.list()}
        if tablet_id not in known:
            raise InterfaceError(f"the server has no replica of tablet {tablet_id}{did_you_mean(tablet_id, known)}")
        return known[tablet_id]

    def _read(self, tablet_id: str, directory: DataDirectory) -> LocalReplica:
        path = directory.of(tablet_id)
        if directory.error:
            return LocalReplica(tablet_id, "", "", "FAILED", 0, (), 0, path, directory.error)
        size = sum(self._sizes(path))
        try:
            superblock = Superblock.read(self._fs, path)
            if superblock is None:
                return LocalReplica(tablet_id, "", "", "FAILED", 0, (), size, path, "unfinished: removed at the start")
            kept = self._consensus(path)
        except CorruptionError as error:
            return LocalReplica(tablet_id, "", "", "FAILED", 0, (), size, path, str(error))
        return LocalReplica(
            tablet_id,
            str(superblock.tablet.table["name"]),
            superblock.tablet.place,
            superblock.state.value,
            kept.term,
            kept.configuration.peers,
            size,
            path,
        )

    def _consensus(self, path: str) -> ConsensusState:
        if not self._fs.exists(f"{path}/{CONSENSUS_FILE}"):
            raise CorruptionError("it is missing", f"{path}/{CONSENSUS_FILE}", "whole file")
        return read_consensus(self._fs, path)

    def _sizes(self, path: str) -> Iterator[int]:
        """Yields the sizes of a replica's files."""
        for folder in (path, f"{path}/rowsets", f"{path}/wal"):
            if folder == path or self._fs.exists(folder):
                for name in self._fs.list(folder):
                    if name not in ("rowsets", "wal"):
                        file = self._fs.open(f"{folder}/{name}")
                        yield file.size
                        file.close()
