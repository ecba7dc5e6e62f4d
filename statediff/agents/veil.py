"""Secrets do not get into recordings: they are replaced before anything is written.

A secret is found by the name of what holds it (`password`, `api_key`, `Authorization`), by the form
that its issuer gave it (`ghp_…`, `AKIA…`, a JWT, a PEM key), by where it is in a text (the account
of a URL, a form, a header, a flag, SQL), or because the evaluator knows it: the passwords of the
systems' URLs and of its own environment. The tables below are all of it.

In its place is `secret-` and a name that is the same for the same secret, so that equality can
still be judged: in a live run a digest keyed by 32 random bytes that are in no file; in a file that
is read later, where the same bytes must give the same bundle, the number of its first appearance.

In a text only characters that secrets have are replaced, no operators of a shell: an agent cannot
hide what it runs behind a word such as `password=`.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar
from urllib.parse import unquote, urlsplit

import re2

from statediff.model.trace import Action, Excerpt, NoAnswer, Trace, Turn
from statediff.model.values import Map, Unobserved, Unordered

MARK: Final = "secret-"
_MARKED: Final = re.compile(rf"{MARK}(?:[0-9a-f]{{16}}|[0-9]{{1,6}}|…)")
_LIVE_KEY: Final = secrets.token_bytes(32)
_LIVE_MET: Final[set[str]] = set()
MAX_MET: Final = 10_000
_Any = TypeVar("_Any")

_ENDS: Final = (
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "pwd",
    "secret",
    "secrets",
    "secretkey",
    "apikey",
    "accesskey",
    "privatekey",
    "accountkey",
    "signingkey",
    "encryptionkey",
    "masterkey",
    "token",
    "credential",
    "credentials",
    "authorization",
    "cookie",
    "cookies",
    "sessionid",
    "csrf",
    "xsrf",
    "jwt",
    "clientsecret",
    "sharedkey",
    "authkey",
)
_EXACT: Final = frozenset({"pass", "auth", "pin", "otp", "cvv", "cvc", "sig", "pgpass", "userpass"})
_NONE: Final = (
    "pagetoken",
    "nexttoken",
    "previoustoken",
    "prevtoken",
    "continuationtoken",
    "synctoken",
    "cancellationtoken",
    "contenttoken",
    "starttoken",
    "endtoken",
    "stoptoken",
    "progresstoken",
)
"""Names that end as secrets do and are none."""
_OPEN: Final = frozenset({"user", "username", "login", "email", "name", "id", "type", "scheme"})
"""Beside a secret under a name such as `credentials`, these members stay."""

_C: Final = r"[A-Za-z0-9_\-+/=.~!@#%^*:?]"
"""What a secret is made of inside a text."""
_WORD: Final = (
    r"(?:[A-Za-z0-9_\-]{0,40}?(?:password|passwd|passphrase|passcode|pwd|secret|api[_-]?key"
    r"|(?:access|private|account|secret|sharedaccess)[_-]?key|client[_-]?secret"
    r"|(?:auth|access|refresh|id|session|csrf)[_-]?token|[_-]token|session[_-]?id|credentials?)"
    r"|token)"
)
"""The words before a secret in a text."""
ISSUED: Final = (
    (
        r"(?s:-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----.*?"
        r"-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----)"
    ),
    r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?",  # a JWT
    r"\b(?:AKIA|ASIA|ABIA|ACCA|AGPA|AROA|AIDA|ANPA)[A-Z0-9]{16}\b",
    r"\bgh[pousr]_[A-Za-z0-9]{30,}",
    r"\bgithub_pat_[A-Za-z0-9_]{22,}",
    r"\bgl[a-z]{2,5}-[A-Za-z0-9_\-]{18,}",
    r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}",
    r"\bxapp-[A-Za-z0-9-]{10,}",
    r"\bsk-[A-Za-z0-9_\-]{16,}",
    r"\bAIza[A-Za-z0-9_\-]{30,}",
    r"\bya29\.[A-Za-z0-9_\-]{20,}",
    r"\bGOCSPX-[A-Za-z0-9_\-]{20,}",
    r"\bnpm_[A-Za-z0-9]{30,}",
    r"\bpypi-[A-Za-z0-9_\-]{30,}",
    r"\bSG\.[A-Za-z0-9_\-]{16,}\.[A-Za-z0-9_\-]{16,}",
    r"\b(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{10,}",
    r"\bwhsec_[A-Za-z0-9+/=]{16,}",
    r"\bhf_[A-Za-z0-9]{20,}",
    r"\bhv[sbr]\.[A-Za-z0-9_\-]{20,}",
    r"\bdo[opr]_v1_[a-f0-9]{40,}",
    r"\bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}",
    r"\bdapi[a-f0-9]{32}",
    r"\blin_api_[A-Za-z0-9]{20,}",
    r"\bntn_[A-Za-z0-9]{20,}",
    r"\bPMAK-[A-Za-z0-9-]{20,}",
    r"\bdp\.[a-z]{2}\.[A-Za-z0-9]{20,}",
    r"\b(?:gsk_|xai-|pplx-|r8_)[A-Za-z0-9]{20,}",
    r"\bkey-[a-f0-9]{32}\b",
    r"\b[a-f0-9]{32}-us[0-9]{1,2}\b",
    r"\bgl(?:sa|c)_[A-Za-z0-9_+/=]{20,}",
    r"\bsntry[su]_[A-Za-z0-9_+/=]{20,}",
    r"\bNRAK-[A-Z0-9]{20,}",
    r"\bSK[a-f0-9]{32}\b",
    r"\bsq0[a-z]{3}-[A-Za-z0-9_\-]{20,}",
    r"\bEAA[A-Za-z0-9]{30,}",
    r"\bops_eyJ[A-Za-z0-9_\-]{20,}",
    r"\bfigd_[A-Za-z0-9_\-]{20,}",
    r"\bAGE-SECRET-KEY-1[A-Z0-9]{50,}",
    r"\b[0-9]{8,10}:AA[A-Za-z0-9_\-]{30,}",
    r"\b[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_\-]{40,}",
)
"""The forms that issuers give to keys and tokens."""
PLACES: Final = (
    (
        r"https://(?:hooks\.slack\.com/(?:services|workflows)|discord(?:app)?\.com/api/webhooks)/"
        r"(?P<s>[A-Za-z0-9_\-/]{16,})"
    ),
    r"(?i)\b[a-z][a-z0-9+.\-]{1,30}://[^\s/:@?#\"'<>]{0,200}:(?P<s>[^\s/\"'<>@]{1,400})@",
    r"(?i)\b(?:bearer|basic|token|digest|negotiate|apikey)[ \t]+(?P<s>[A-Za-z0-9_\-+/=.~]{12,})",
    (
        r"(?i)\b(?:set-)?cookie[\"']?[ \t]*[:=][ \t]*[\"']?(?P<s>[A-Za-z0-9_\-.%]+="
        r"[A-Za-z0-9_\-+/=.%~]{4,}(?:;[ ]?[A-Za-z0-9_\-.%]+=[A-Za-z0-9_\-+/=.%~]+)*)"
    ),
    r"(?i)\bname=\"?" + _WORD + r"\"?(?:\r?\n[^\r\n]{1,200}){0,3}\r?\n\r?\n"
    r"(?P<s>[^\r\n]+)\r?\n--",
    r"(?i)<" + _WORD + r">(?P<s>[^<>]+)</",
    r"(?i)\b(?:identified[ \t]+(?:with[ \t]+[a-z0-9_]+[ \t]+)?by|password)[ \t]+'(?P<s>[^'\n]+)'",
    r"(?i)[\"']" + _WORD + r"\\{0,3}[\"'][ \t]*(?::|=>|=)[ \t]*\\{0,3}[\"']"
    r"(?P<s>[^\"'\\\n$`;|&()<>]+)\\{0,3}[\"']",
    r"(?i)\b" + _WORD + r"[ \t]*(?:=>|:=|=|:)[ \t]*[\"']?(?P<s>" + _C + r"{3,})",
    r"(?i)\b" + _WORD + r"[ \t]+(?:is|was)[ \t]+[\"']?"
    r"(?P<s>" + _C + r"{3,}[0-9]" + _C + r"*|[0-9]" + _C + r"{5,})",
    r"(?i)--?" + _WORD + r"[ \t]+[\"']?(?P<s>" + _C + r"{3,})",
    r"(?:^|\s)(?:-u|--user)[ \t]+[\"']?[A-Za-z0-9_.@\-]{1,100}:(?P<s>" + _C + r"+)",
    r"(?i)\bmysql(?:dump|admin)?\b[^\n|;]{0,200}?[ \t]-p(?P<s>" + _C + r"{3,})",
    (
        r"(?i)[?&](?:key|sig|signature|auth|code|pwd|pass|x-amz-signature)="
        r"(?P<s>[A-Za-z0-9_\-+/=.%~]{12,})"
    ),
)
"""Each with the secret as its group `s`, matched in linear time."""
_PATTERNS: Final = tuple(map(re2.compile, (f"(?P<s>{'|'.join(ISSUED)})", *PLACES)))
_HINT: Final = re2.compile(
    r"(?i)pass|pwd|secret|key|token|credential|session|cookie|bearer|basic|digest|negotiate|://"
    r"|-u |--user|-p|identified|eyj|[?&](?:sig|auth|code)|hooks|[a-z0-9]{3,}[_.:-][a-z0-9]{6}"
    r"|(?:AKIA|ASIA|ABIA|ACCA|AGPA|AROA|AIDA|ANPA|AIza|EAA|SK|dapi)[A-Za-z0-9]"
)
"""A text without any of it holds no secret that a rule finds."""
_SHORTEST_KNOWN: Final = 8
_ENVIRONMENT: Final = re.compile(
    r"(?:^|_)(?:PASSWORD|PASSWD|PWD|SECRET|TOKEN|KEY|CREDENTIALS?)(?:_|$)"
)


def is_secret_name(name: str, *, is_query: bool = False) -> bool:
    """Whether a member, a parameter or a header of the name holds a secret."""
    word = re.sub(r"[^a-z0-9]", "", name.lower())
    if word in _EXACT or (is_query and word in ("key", "signature", "xamzsignature")):
        return True
    return word.endswith(_ENDS) and not word.endswith(_NONE)


@dataclass
class Veil:
    """What replaces secrets. `name` gives the name of a secret; `known` are secrets themselves."""

    name: Callable[[str], str]
    known: frozenset[str] = frozenset()
    met: set[str] = field(default_factory=set)
    """Secrets that were replaced because of where they were, found elsewhere only in texts that
    nobody judges: otherwise an agent could choose what a contract does not see."""

    def text(self, text: str, *, with_met: bool = False) -> str:
        """The text without secrets."""
        for secret in sorted(self.known | (self.met if with_met else set()), key=len, reverse=True):
            if secret in text:
                text = text.replace(secret, self._named(secret))
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:  # half a character, which no file of ours can hold
            whole = text.encode("utf-8", "replace").decode("utf-8")
            return text if (found := self.text(whole)) == whole else found
        if not _HINT.search(text):
            return text
        for pattern in _PATTERNS:
            if pattern.search(text):
                text = pattern.sub(self._replaced, text)
        return text

    def value(self, value: _Any, *, is_query: bool = False) -> _Any:
        """The value, JSON or of a state, without secrets; of the same kind otherwise."""
        found: Any = self._value(value, is_query)
        return found  # type: ignore[no-any-return]  # of the kind of what was given

    def trace(self, trace: Trace) -> Trace:
        """The calls, messages and replies without secrets."""
        turns = None if trace.turns is None else tuple(map(self._turn, trace.turns))
        return replace(
            trace,
            actions=tuple(map(self._action, trace.actions)),
            cause=self.text(trace.cause),
            turns=turns,
        )

    def _action(self, action: Action) -> Action:
        return replace(
            action,
            arguments=self.value(action.arguments),
            result=self.value(action.result),
            error=None if action.error is None else self.text(action.error),
            principal=None if action.principal is None else self.text(action.principal),
            context=self._excerpt(action.context),
            messages=self._excerpt(action.messages),
        )

    def _excerpt(self, excerpt: Excerpt | None) -> Excerpt | None:
        """Where the beginning held a secret, the digest is of what is shown instead of it."""
        if excerpt is None or (shown := self.text(excerpt.beginning)) == excerpt.beginning:
            return excerpt
        return replace(Excerpt.of(shown), characters=excerpt.characters)

    def _turn(self, turn: Turn) -> Turn:
        return replace(turn, message=self.text(turn.message), reply=self.value(turn.reply))

    def _value(self, value: Any, is_query: bool) -> Any:
        match value:
            case str():
                return self.text(value)
            case Map():
                return Map.of(self._members(dict(value.items), is_query=False))
            case dict():
                return self._members(value, is_query=is_query)
            case [str(name), str(each)] if is_query and isinstance(value, list):
                return [name, self._member(name, each, True)]
            case Unordered():
                return Unordered([self._value(each, is_query) for each in value], value.key)
            case tuple() if type(value) is tuple:
                return tuple(self._value(each, is_query) for each in value)
            case list():
                return [self._value(each, is_query) for each in value]
            case _:
                return value

    def _members(self, members: Mapping[Any, Any], *, is_query: bool) -> dict[Any, Any]:
        """The members; of `{"name": "password", "value": …}` the value is the secret."""
        told = members.get("name", members.get("key"))
        is_told = isinstance(told, str) and is_secret_name(told)
        found: dict[Any, Any] = {}
        for name, each in members.items():
            shown = self.text(name) if isinstance(name, str) else name
            while shown in found:
                shown = f"{shown}'"  # two secrets made one name
            found[shown] = (
                self._hidden(each)
                if is_told and name == "value"
                else self._member(str(name), each, is_query)
            )
        return found

    def _member(self, name: str, value: Any, is_query: bool) -> Any:
        if is_secret_name(name, is_query=is_query):
            return self._hidden(value)
        if name in ("query", "headers", "params", "form"):
            return self._value(value, True)
        return self._value(value, False)

    def _hidden(self, value: Any) -> Any:
        """What is under the name of a secret: every text and number of it, but for who it is of."""
        match value:
            case None | bool() | Unobserved() | NoAnswer():
                return value
            case str():
                return self._named(value) if value else value
            case Map():
                return Map(
                    tuple(
                        (n, self._value(each, False) if n.lower() in _OPEN else self._hidden(each))
                        for n, each in value.items
                    )
                )
            case dict():
                return {
                    n: self._value(each, False) if str(n).lower() in _OPEN else self._hidden(each)
                    for n, each in value.items()
                }
            case Unordered():
                return Unordered([self._hidden(each) for each in value], value.key)
            case tuple() if type(value) is tuple:
                return tuple(map(self._hidden, value))
            case list():
                return list(map(self._hidden, value))
            case _:
                return self._named(str(value))

    def _replaced(self, match: Any) -> str:
        secret = match.group(1)
        if not secret or _MARKED.fullmatch(secret):
            return str(match.group())
        start = match.start(1) - match.start()
        whole = str(match.group())
        return whole[:start] + self._named(secret) + whole[start + len(secret) :]

    def _named(self, secret: str) -> str:
        if _MARKED.fullmatch(secret):
            return secret
        if _is_unguessed(secret) and len(self.met) < MAX_MET:
            self.met.add(secret)
        return MARK + self.name(secret)


def live_veil(urls: Iterable[str] = ()) -> Veil:
    """For what is recorded now; it knows the passwords of the URLs and of the environment."""
    found = {value for name, value in os.environ.items() if _ENVIRONMENT.search(name.upper())}
    for url in urls:
        password = urlsplit(url).netloc.rpartition("@")[0].partition(":")[2]
        found |= {password, unquote(password)}
    return Veil(_digest, frozenset(filter(_is_unguessed, found)), _LIVE_MET)


def file_veil() -> Veil:
    """For one file that was recorded before: the same file always gives the same trace."""
    numbers: dict[str, str] = {}
    return Veil(lambda secret: numbers.setdefault(secret, str(len(numbers) + 1)))


NAME_VEIL: Final = Veil(lambda _secret: "…")
"""For names, of which nobody asks whether their secrets are equal."""


def _digest(secret: str) -> str:
    data = secret.encode("utf-8", "surrogatepass")
    return hmac.new(_LIVE_KEY, data, hashlib.sha256).hexdigest()[:16]


def _is_unguessed(secret: str) -> bool:
    """Long and mixed enough to be no word that stands anywhere for something else."""
    has_both = any(map(str.isdigit, secret)) and any(map(str.isalpha, secret))
    return len(secret) >= _SHORTEST_KNOWN and has_both and not any(map(str.isspace, secret))
