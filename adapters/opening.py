"""open_journal: the one place that chooses a backend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from ..domain.audit import AUDIT_EVENTS
from ..domain.checks import refuse
from ..domain.delivery import DELIVERY_EVENTS
from ..domain.events import RUN_EVENTS
from ..domain.limits import DeploymentLimits
from ..domain.ports import Authorizer
from ..domain.registry import EventRegistry
from .ciphering import MARK, Cipher
from .codec import OrjsonCodec
from .journal import Journal
from .telemetry.choosing import observer_of

if TYPE_CHECKING:
    from .key_value.store import KeyValueStore
    from .postgres.database import HostPool
    from .telemetry.telemetry import Telemetry


def open_journal(
    url: str | KeyValueStore,
    *,
    limits: DeploymentLimits | None = None,
    authorizer: Authorizer | None = None,
    registry: EventRegistry | None = None,
    cipher: Cipher | None = None,
    telemetry: Telemetry | bool | None = None,
    schema: str = "public",
    pool: HostPool | None = None,
    pooler: bool = False,
    create: bool = True,
    notify: bool = False,
) -> Journal:
    """Open the journal at `url`, creating it where there is none.

    url       "memory:" (this process only), "sqlite:///runs.db" (relative), "sqlite:////var/runs.db"
              (absolute), "postgresql://..."; for SQLite "?synchronous=normal" gives up the last
              commits on a power loss for speed; or a KeyValueStore of the host's own, which is
              then the journal's to close
    limits    what the deployment allows a run
    authorizer
              is asked about every start, cancel, fail, resume and decision; without one all are
              allowed
    registry  the events that can be read; a host that adds or upcasts events passes its own
    cipher    encrypts what is stored: a KeyRing, or a Cipher of the host's. Without one a journal
              whose newest event is encrypted is not written to: RUN_VALIDATION_ERROR / missing_key
    telemetry where spans and metrics go: a Telemetry; None or True: the OpenTelemetry SDK that the
              process has set up by now, if any, and True insists on the extra; False: nowhere

    For Postgres only:
    schema    the namespace of the journal's tables
    pool      a pool of the host's own to take connections from, such as psycopg_pool's
    pooler    the address is a transaction pooler's (PgBouncer): nothing is prepared or set
    create    whether to create or migrate the tables; without, they must be there
    notify    whether to send a NOTIFY when a run becomes claimable (see `wait_for_work`); it makes
              those commits of the whole database wait for one another

    Raises RUN_VALIDATION_ERROR / address or read_only, RUN_INTEGRITY_ERROR / not_a_journal,
    newer_database, damaged_database or missing_upcaster. A refused file is left untouched.
    """
    observer = observer_of(telemetry)
    store = _store_for(url, schema, pool, pooler, create, notify, cipher)
    try:
        # One process that lacks its key file must not write in plain what the others encrypt.
        plain = cipher is not None or not _is_encrypted(store)
    except BaseException:
        store.close()
        raise
    codec = codec_for(registry, cipher, writes_plain=plain)
    return Journal(store, codec, limits or DeploymentLimits(), authorizer, observer)


def codec_for(
    registry: EventRegistry | None, cipher: Cipher | None, *, writes_plain: bool = True
) -> OrjsonCodec:
    """How events are stored and read: those of the registry, or those that we have."""
    known = registry or EventRegistry([*RUN_EVENTS, *DELIVERY_EVENTS, *AUDIT_EVENTS])
    return OrjsonCodec(known, cipher, writes_plain=writes_plain)


def _is_encrypted(store: Any) -> bool:
    """Whether the newest event is."""
    head = store.max_notification_id()
    newest = store.select_notifications(head, 1) if head else []
    return any(event.state.startswith(MARK) for event in newest)


def _store_for(
    url: str | KeyValueStore,
    schema: str,
    pool: HostPool | None,
    pooler: bool,
    create: bool,
    notify: bool,
    cipher: Cipher | None,
) -> Any:
    if not isinstance(url, str):
        from .key_value.store import KeyValueStore  # only the chosen backend is loaded

        if isinstance(url, KeyValueStore):
            if cipher is not None:
                raise refuse("argument", "encrypt the rows of a KeyValueStore in its own space")
            return url
        raise refuse("address", f"the journal's address must be a str, not {type(url).__name__}")
    scheme, _, rest = url.partition(":")
    if scheme == "memory" and rest in ("", "//", "///"):
        from .memory.store import MemoryStore  # likewise

        return MemoryStore()
    if scheme == "sqlite" and rest.startswith("///"):
        from .sqlite.store import SQLiteStore  # likewise

        path, _, query = rest[3:].partition("?")
        options = dict(parse_qsl(query, keep_blank_values=True))
        synchronous = options.pop("synchronous", "full").upper()
        if not path or options or synchronous not in ("FULL", "NORMAL", "EXTRA"):
            raise refuse("address", f"{_masked(url)!r} is no sqlite address")
        return SQLiteStore(path, synchronous, cipher)
    if scheme in ("postgresql", "postgres"):
        from .postgres.database import Database  # likewise
        from .postgres.schema import check, check_name
        from .postgres.store import PostgresStore

        check_name(schema)
        database = Database(url, schema, pool=pool, pooler=pooler, create=create)
        if not create:
            try:
                database.transaction(lambda session: check(session.connection, schema))
            except BaseException:
                database.close()
                raise
        return PostgresStore(database, notify=notify, cipher=cipher)
    raise refuse("address", f"{_masked(url)!r} is no journal address")


def _masked(url: str) -> str:
    """The address without credentials: messages end up in logs."""
    try:
        parts = urlsplit(url)
        if parts.password or parts.username:
            host = parts.netloc.rpartition("@")[2]
            return parts._replace(netloc=f"***@{host}", query="").geturl()
    except ValueError:
        return "***"
    return url
