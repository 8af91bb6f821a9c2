"""Why a server refuses a connection, in words that name the setting to change (pure).

PostgreSQL reports the reason only as text, and libpq adds its own words. Unknown texts are shown
unchanged, for example if the server uses another language.
"""

import re
from typing import Final, NamedTuple

# The oldest major version of PostgreSQL that Angelia can use.
_VERSION_LEAST: Final = 14
_URL: Final = "ANGELIA_DATABASE_URL"
_DOCS: Final = "(docs/postgres.md)"
_NO_ENTRY: Final = (
    r"(no pg_hba\.conf entry|pg_hba\.conf rejects connection) for host [^\n]* "
    r'user "(?P<a>[^"]*)", database "(?P<b>[^"]*)"'
)


class _Known(NamedTuple):
    pattern: str
    words: str


# The known texts of errors. If an error contains several, the first one in this list counts. For
# example, if TLS fails, libpq tries again without TLS, and reports the errors of both attempts.
_KNOWN: Final = (
    _Known(
        r"failed to resolve host|could not translate host name",
        f"is not known by that name: check the host in {_URL}",
    ),
    _Known(r"server does not support SSL", f"has no TLS, which sslmode in {_URL} wants"),
    _Known(
        r'certificate for "(?P<a>[^"]*)".* does not match host name "(?P<b>[^"]*)"',
        "has a certificate for {a}, and not for {b}: "
        f"name it so in {_URL}, or have its certificate name this host",
    ),
    _Known(
        r"certificate verify failed",
        "has a certificate of an authority that is not known, or one that has expired: "
        f"check sslrootcert in {_URL}",
    ),
    _Known(
        r'root certificate file "(?P<a>[^"]*)" does not exist',
        f"cannot be verified without {{a}}: set sslrootcert in {_URL}",
    ),
    _Known(
        r"requires a valid client certificate",
        f"wants a certificate of ours: set sslcert and sslkey in {_URL}",
    ),
    _Known(
        r'certificate authentication failed for user "(?P<a>[^"]*)"',
        f"does not take our certificate for the user {{a}}: check sslcert in {_URL}",
    ),
    _Known(r"tlsv1 alert|sslv3 alert", f"does not take our certificate: check sslcert in {_URL}"),
    _Known(
        r'password authentication failed for user "(?P<a>[^"]*)"',
        f"does not take the password of the user {{a}}: check {_URL}",
    ),
    _Known(
        r"no password supplied",
        f"wants a password: give it in {_URL}, ANGELIA_DATABASE_PASSWORD or a .pgpass",
    ),
    _Known(r'role "(?P<a>[^"]*)" does not exist', f"has no user {{a}}: check {_URL}"),
    _Known(r'database "(?P<a>[^"]*)" does not exist', f"has no database {{a}}: check {_URL}"),
    _Known(
        rf"{_NO_ENTRY}, (SSL encryption|SSL on)",
        "does not let the user {a} into {b} from here: change its pg_hba.conf",
    ),
    _Known(
        rf"{_NO_ENTRY}, (no encryption|SSL off)",
        "does not let the user {a} into {b} without TLS, or not from here: "
        f"set sslmode=verify-full in {_URL}, or change its pg_hba.conf",
    ),
    _Known(
        r'permission denied for database "?(?P<a>[^"\n]*)',
        "does not let this user into {a}: grant it CONNECT",
    ),
    _Known(
        r"unsupported startup parameter",
        f"is a pgbouncer: set ANGELIA_DATABASE_DIRECT_URL, too {_DOCS}",
    ),
    _Known(
        r"session is read-only|server is in hot standby mode",
        "takes no changes: it is read-only, or a standby",
    ),
    _Known(
        r"the server has the version (?P<a>\d+)",
        f"is PostgreSQL {{a}}, and Angelia needs {_VERSION_LEAST} or newer {_DOCS}",
    ),
    _Known(
        r"the database has the encoding (?P<a>\w+)",
        f"has a database in {{a}}, and Angelia needs one in UTF8 {_DOCS}",
    ),
    _Known(r"connection timeout expired", "does not answer in time"),
    _Known(r"Connection refused|No such file or directory", "accepts no connections"),
)
_PREFIX: Final = re.compile(
    r"^(connection failed: )?(connection to server .*? failed: )?(FATAL: +|ERROR: +)?"
)


def unusable(version: int, encoding: str | None) -> str:
    """Return the text of the error for a server that is too old, or a database that is not UTF8.

    Empty for any other server. `version` is libpq's number: 150012 for 15.12, 0 if the version is
    unknown. `encoding` is None if it is unknown.
    """
    major = version // 10000
    if 0 < major < _VERSION_LEAST:
        return f"the server has the version {major}"
    return f"the database has the encoding {encoding}" if encoding not in {None, "UTF8"} else ""


def explained(error: Exception) -> str:
    """Return, from an error, what is wrong with the server or the connection.

    The result continues a sentence that begins with the server's address.
    """
    text = str(error).strip()
    for pattern, words in _KNOWN:
        if found := re.search(pattern, text, re.IGNORECASE | re.DOTALL):
            named = {name: value or "" for name, value in found.groupdict().items()}
            return words.format_map(named)
    first = _PREFIX.sub("", text.partition("\n")[0])
    return f"refuses: {first or type(error).__name__}"
