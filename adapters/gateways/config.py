"""Gateways from a TOML file: which delivery_ref goes where, without a secret in the file.

[gateways.archive]
type = "jsonl"
path = "results.jsonl"

[gateways."*"]
type = "webhook"
url = "https://billing.example/hook"
secret_env = "BILLING_SECRET"
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from ssl import SSLContext, SSLError, create_default_context
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...domain.checks import check_delivery_ref, readable, refuse, shown
from ...domain.credentials import looks_like_credentials
from ...domain.errors import RunStoreError
from ...domain.gateway import ANY_REF, DeliveryGateway
from ..loading import load_function
from .function import CallableGateway
from .json_lines import JsonLinesGateway

Text = Annotated[str, Field(min_length=1)]
Texts = Text | Annotated[list[Text], Field(min_length=1)]


class _Table(BaseModel):
    """One table of the file. Values are taken as they are: the text "5" is no number."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, hide_input_in_errors=True)

    def gateway(self, folder: Path) -> DeliveryGateway:
        """What the table describes; relative paths begin at `folder`."""
        raise NotImplementedError


class JsonLinesTable(_Table):
    type: Literal["jsonl"]
    path: Text

    def gateway(self, folder: Path) -> DeliveryGateway:
        return JsonLinesGateway(self.path if self.path == "-" else folder / self.path)


class PythonTable(_Table):
    type: Literal["python"]
    call: Text

    def gateway(self, folder: Path) -> DeliveryGateway:
        return CallableGateway(load_function(self.call, "call"))


class WebhookTable(_Table):
    type: Literal["webhook"]
    url: Text | None = None
    url_env: Text | None = None
    secret_env: Texts | None = None
    secret_file: Texts | None = None
    headers: dict[str, str] = {}
    headers_env: dict[str, Text] = {}
    timeout: float = 10.0
    connect_timeout: float = 5.0
    allow_private: bool = False
    ca_file: Text | None = None

    def gateway(self, folder: Path) -> DeliveryGateway:
        from .webhook import WebhookGateway  # loads httpx, which need not be installed

        if (self.url is None) == (self.url_env is None):
            raise refuse("argument", "give one of url and url_env")
        if looks_like_credentials(self.url or ""):
            raise refuse("argument", "url has a secret in it: name its variable in url_env")
        for name in self.headers:
            if _is_for_credentials(name):
                raise refuse("argument", f"headers: {shown(name)} belongs in headers_env")
        from_env = {h: _variable(v, f"headers_env.{h}") for h, v in self.headers_env.items()}
        return WebhookGateway(
            self.url or _variable(self.url_env or "", "url_env"),
            secret=self._secrets(folder),
            timeout=self.timeout,
            connect_timeout=self.connect_timeout,
            headers={**self.headers, **from_env},
            allow_private=self.allow_private,
            ssl_context=None if self.ca_file is None else _authorities(folder / self.ca_file),
        )

    def _secrets(self, folder: Path) -> list[str | bytes]:
        if (self.secret_env is None) == (self.secret_file is None):
            raise refuse("argument", "give one of secret_env and secret_file")
        named = [_variable(name, "secret_env") for name in _list(self.secret_env)]
        files = [_content(folder / name, "secret_file") for name in _list(self.secret_file)]
        # An editor ends each file with a line break.
        return [*named, *(content.rstrip(b"\r\n") for content in files)]


_TABLES: Final[dict[str, type[_Table]]] = {
    "jsonl": JsonLinesTable,
    "python": PythonTable,
    "webhook": WebhookTable,
}


def load_gateways(
    source: str | os.PathLike[str] | Mapping[str, Any],
) -> dict[str, DeliveryGateway]:
    """The gateways of a TOML file by delivery_ref; "*" is for each ref without one of its own.

    source  the file, or what such a file holds, as a mapping. Relative paths in it begin at the
            file's folder, or at the working directory for a mapping

    Secrets are read here, once. Raises RUN_VALIDATION_ERROR / argument for every mistake, with
    the file, the gateway and the key; never with a secret.
    """
    if isinstance(source, Mapping):
        return _build(source, "gateways", Path.cwd())
    if not isinstance(source, str | os.PathLike) or not isinstance(os.fspath(source), str):
        raise refuse("argument", f"gateways must be a path or a mapping, not {shown(source)}")
    path = Path(source)
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise refuse("argument", f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # no TOML; no UTF-8; a NUL in the name
        # A text that is no UTF-8 is not shown, for it may hold anything.
        why = str(error) if isinstance(error, tomllib.TOMLDecodeError) else type(error).__name__
        raise refuse("argument", f"{shown(path.name)} is no TOML: {why}") from None
    return _build(tables, str(path), path.absolute().parent)


def _build(source: Mapping[Any, Any], where: str, folder: Path) -> dict[str, DeliveryGateway]:
    for key in source:
        if key != "gateways":
            raise refuse("argument", f"{where}: unknown key {shown(key)}; it has gateways only")
    tables = source.get("gateways")
    if not isinstance(tables, Mapping) or not tables:
        raise refuse("argument", f"{where}: there is no table [gateways.NAME]")
    built = {}
    for name, table in tables.items():
        with _named(f"{where}: the name of a gateway"):
            ref = name if name == ANY_REF else check_delivery_ref(name)
        with _named(f"{where}: gateway {shown(ref)}"):
            built[ref] = _table(table).gateway(folder)
    return built


def _table(given: Any) -> _Table:
    if not isinstance(given, Mapping):
        raise refuse("argument", "it must be a table")
    if "secret" in given:
        raise refuse(
            "argument",
            "secret: a secret does not belong here; name its variable in secret_env, or its file "
            "in secret_file",
        )
    kind = given.get("type")
    model = _TABLES.get(kind) if isinstance(kind, str) else None
    if model is None:
        raise refuse("argument", f"type must be one of {', '.join(_TABLES)}, not {shown(kind)}")
    try:
        return model.model_validate(dict(given))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        unknown = first["type"] == "extra_forbidden"
        why = "there is no such key" if unknown else first["msg"].lower()
        raise refuse("argument", f"{readable(first['loc'][0], 80)}: {why}") from None


def _list(given: str | list[str] | None) -> list[str]:
    return [given] if isinstance(given, str) else given or []


def _variable(name: str, key: str) -> str:
    try:
        value = os.environ.get(name)
    except ValueError:  # a NUL or a lone surrogate in the name
        value = None
    if not value:
        raise refuse("argument", f"{key}: the environment variable {shown(name)} is not set")
    return value


def _content(path: Path, key: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise refuse("argument", f"{key}: {path} cannot be read: {error.strerror}") from None
    except ValueError:
        raise refuse("argument", f"{key}: {shown(str(path))} can name no file") from None


def _authorities(path: Path) -> SSLContext:
    content = _content(path, "ca_file")
    try:
        # A line break more, for without any data the system's authorities would be taken.
        return create_default_context(cadata=content.decode("ascii") + "\n")
    except (SSLError, ValueError):
        raise refuse("argument", f"ca_file: {path} has no certificates in PEM form") from None


def _is_for_credentials(header: str) -> bool:
    words = ("auth", "cookie", "key", "secret", "token")
    return any(word in header.lower() for word in words)


@contextmanager
def _named(what: str) -> Iterator[None]:
    """Refusals from within, with what they are about."""
    try:
        yield
    except RunStoreError as error:
        raise refuse("argument", f"{what}: {error.message}") from None
