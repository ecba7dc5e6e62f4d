"""Disclosure, after judgement: what people are shown of a run is without its secrets.

What was recorded is judged as it is. Where calls and answers are written for people, or may leave
the machine, a secret is replaced: known by the name of what holds it (`password`, `Authorization`),
by the form that its issuer gave it (`ghp_…`, `AKIA…`, a JWT, a PEM key), or by where it is in a
text (the account of a URL, a form, a header, a flag, SQL). The tables below are all of it.

In its place is `secret-` and the number of its first appearance in the trial: the same inputs give
the same bytes, and no name can be tried against guessed secrets, as a digest could. The values
themselves go where only auditors look (`undisclosed`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import islice, pairwise
from typing import Any, Final
from urllib.parse import unquote_plus

import re2

from statediff.evidence.disclosure.rewriting import Rewriting
from statediff.model.explanation import Explanation, Reason, frozen
from statediff.model.trace import NoAnswer
from statediff.model.values import Map, Unobserved, Unordered, decode, encode
from statediff.model.verdict import Comparison, Finding, Witness, WitnessRow

MARK: Final = "secret-"
_MARKED: Final = re.compile(rf"{MARK}(?:[0-9]{{1,6}}|own|…)")
MAX_SOUGHT: Final = 10_000
"""Secrets of a trial that are sought in other texts."""
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
"""The characters of a secret inside a text."""
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
_ISSUED: Final = re2.compile("|".join(ISSUED))
_TOKEN: Final = re2.compile(r"[A-Za-z0-9_\-+/=.~]+")
_PATTERNS: Final = tuple(map(re2.compile, (f"(?P<s>{'|'.join(ISSUED)})", *PLACES)))
_HINT: Final = re2.compile(
    r"(?i)pass|pwd|secret|key|token|credential|session|cookie|bearer|basic|digest|negotiate|://"
    r"|-u |--user|-p|identified|eyj|[?&](?:sig|auth|code)|hooks|[a-z0-9]{3,}[_.:-][a-z0-9]{6}"
    r"|(?:AKIA|ASIA|ABIA|ACCA|AGPA|AROA|AIDA|ANPA|AIza|EAA|SK|dapi)[A-Za-z0-9]"
)
"""A text without any of it holds no secret that a rule finds."""
_FORM: Final = re2.compile(r"[^=&\s]+=[^=&\s]*(?:&[^=&\s]+=[^=&\s]*)+")
_SHORTEST_UNGUESSED: Final = 8
_SHORTEST_DRAWN: Final = 12
_SHORTEST_WHOLE: Final = 4
"""Characters of a secret that is replaced where it is all of a value in a finding."""
_ALL_SHOWN: Final = 40
"""A text in a finding that has fewer characters was not cut."""


def is_secret_name(name: str, *, is_query: bool = False) -> bool:
    """True where a member, a parameter or a header of the name holds a secret."""
    word = re.sub(r"[^a-z0-9]", "", name.lower())
    if word in _EXACT or (is_query and word in ("key", "signature", "xamzsignature")):
        return True
    return word.endswith(_ENDS) and not word.endswith(_NONE)


def is_unguessed(secret: str) -> bool:
    """Long and mixed enough to be no word that stands anywhere for something else."""
    has_both = any(map(str.isdigit, secret)) and any(map(str.isalpha, secret))
    return len(secret) >= _SHORTEST_UNGUESSED and has_both and not any(map(str.isspace, secret))


def is_issued(value: str) -> bool:
    """All of the value has the form that an issuer gives to keys and tokens."""
    return bool(_ISSUED.fullmatch(value))


def is_drawn(value: str) -> bool:
    """True for one word that looks drawn at random, or has a form that issuers give.

    Of at least 12 letters, digits and signs, it changes between small letters, capitals and digits
    at every fifth place or oftener. No path, word, sentence, date or address does.
    """
    if is_issued(value):
        return True
    if len(value) < _SHORTEST_DRAWN or not _TOKEN.fullmatch(value) or value[0] in "/.~":
        return False
    kinds = [(each.isdigit(), each.isupper()) for each in value if each.isalnum()]
    changes = sum(one != other for one, other in pairwise(kinds))
    return changes * 5 >= len(value) and any(map(str.isalpha, value))


@dataclass
class Disclosure(Rewriting):
    """Replaces the secrets of one trial: `names` has them, each with what is shown instead."""

    names: dict[str, str] = field(default_factory=dict)
    is_nameless: bool = False
    """All secrets are shown alike, and none is remembered."""
    _sorted: tuple[int, Sequence[tuple[str, str]]] = (0, ())

    def text(self, text: str) -> str:
        """The text without secrets."""
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:  # half a character, which no file of ours can hold
            whole = text.encode("utf-8", "replace").decode("utf-8")
            return text if (found := self.text(whole)) == whole else found
        if _FORM.fullmatch(text):
            text = "&".join(map(self._form_field, text.split("&")))
        if not _HINT.search(text):
            return text
        for pattern in _PATTERNS:
            if pattern.search(text):
                text = pattern.sub(self._replace, text)
        return text

    def elsewhere(self, text: str) -> str:
        """A text beside the calls, without the secrets that were found in them or are in it.

        It may have been cut in the middle of one.
        """
        for secret, name in self._sought():
            if secret in text:
                text = text.replace(secret, name)
            elif len(text) >= _ALL_SHOWN:
                at = next((n for n in range(min(len(secret), len(text)), 3, -1)
                           if text.endswith(secret[:n])), 0)  # fmt: skip
                text = f"{text[: len(text) - at]}{name}" if at else text
        return self.text(text)

    def command(self, words: Sequence[str]) -> tuple[str, ...]:
        """The words of a command line; after `--password` or the like is a secret."""
        before = ("", *words)
        return tuple(
            self._name(word) if was.startswith("-") and word and is_secret_name(was)
            else self.elsewhere(word)
            for was, word in zip(before, words, strict=False)
        )  # fmt: skip

    def _principal(self, name: str) -> str:
        """The account that made a call; some accounts are the key itself."""
        return self._name(name) if is_drawn(name) else self.text(name)

    def _members(self, members: Mapping[Any, Any], *, is_query: bool) -> dict[Any, Any]:
        """The members; of `{"name": "password", "value": …}` the value is the secret."""
        named = members.get("name", members.get("key"))
        if "value" in members and isinstance(named, str) and is_secret_name(named):
            members = {**members, "value": self._hidden(members["value"])}
        return super()._members(members, is_query=is_query)

    def _form_field(self, text: str) -> str:
        """A field of a form, as it was written; without its value, if it is a secret's."""
        name, equals, value = text.partition("=")
        is_hidden = value and is_secret_name(unquote_plus(name))
        return f"{name}{equals}{self._name(unquote_plus(value))}" if is_hidden else text

    def _member(self, name: str, value: Any, *, is_query: bool) -> Any:
        if is_secret_name(name, is_query=is_query):
            return self._hidden(value)
        is_query = name in ("query", "headers", "params", "form")
        return self._value(value, is_query=is_query)

    def _hidden(self, value: Any) -> Any:
        """Hide every text and number under the name of a secret, but for whose it is."""
        match value:
            case None | bool() | Unobserved() | NoAnswer():
                return value
            case str():
                return self._name(value) if value else value
            case Map():
                return Map(
                    tuple(
                        (n, self.value(each) if n.lower() in _OPEN else self._hidden(each))
                        for n, each in value.items
                    )
                )
            case dict():
                return {
                    n: self.value(each) if str(n).lower() in _OPEN else self._hidden(each)
                    for n, each in value.items()
                }
            case Unordered():
                return Unordered([self._hidden(each) for each in value], value.key)
            case tuple() if type(value) is tuple:
                return tuple(map(self._hidden, value))
            case list():
                return list(map(self._hidden, value))
            case _:
                return self._name(str(value))

    def _replace(self, match: Any) -> str:
        secret = match.group(1)
        if not secret or _MARKED.fullmatch(secret):
            return str(match.group())
        start = match.start(1) - match.start()
        whole = str(match.group())
        return whole[:start] + self._name(secret) + whole[start + len(secret) :]

    def _name(self, secret: str) -> str:
        if _MARKED.fullmatch(secret):
            return secret
        if self.is_nameless:
            return f"{MARK}…"
        return self.names.setdefault(secret, f"{MARK}{len(self.names) + 1}")

    def _sought(self) -> Sequence[tuple[str, str]]:
        """The secrets that are sought in other texts, the longest first, and their names."""
        if len(self.names) != self._sorted[0]:
            found = islice(((s, n) for s, n in self.names.items() if is_unguessed(s)), MAX_SOUGHT)
            ordered = sorted(found, key=lambda pair: len(pair[0]), reverse=True)
            self._sorted = len(self.names), ordered
        return self._sorted[1]

    # ---------------------------------------------------------------- what was judged

    def findings(self, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
        """The findings without the secrets of the calls and the answer; the truths are the same.

        A state is evidence as it is, wherever it is shown.
        """
        return tuple(map(self._finding, findings)) if self.names else findings

    def _finding(self, finding: Finding) -> Finding:
        witness = finding.witness
        return replace(
            finding,
            explanation=self._explanation(finding.explanation),
            causes=tuple(map(self._explanation, finding.causes)),
            witness=Witness(
                tuple(map(self._row, witness.rows)),
                tuple(map(self._comparison, witness.comparisons)),
            ),
        )

    def _row(self, row: WitnessRow) -> WitnessRow:
        if row.side != "trace":
            return row
        fields = [
            (name, self._show_decided(self._member(name, each, is_query=False)))
            for name, each in row.fields
        ]
        return replace(row, fields=tuple(fields))

    def _comparison(self, comparison: Comparison) -> Comparison:
        left, right = map(self._explanation, (comparison.left, comparison.right))
        return replace(comparison, left=left, right=right)

    def _explanation(self, explanation: Explanation) -> Explanation:
        if explanation.reason is Reason.VALUE:
            (value,) = explanation.arguments
            shown = self._show_decided(self.value(decode(_thaw(value))))
            return Explanation(Reason.VALUE, (frozen(encode(shown)),))
        return replace(explanation, arguments=tuple(map(self._argument, explanation.arguments)))

    def _argument(self, argument: Any) -> Any:
        match argument:
            case Explanation():
                return self._explanation(argument)
            case str():
                return self.elsewhere(argument)
            case tuple():
                return tuple(map(self._argument, argument))
            case _:
                return argument

    def _show_decided(self, value: Any) -> Any:
        """A value that decided something: it may be a secret that is named nowhere near."""
        match value:
            case str() | int() | Decimal() if not isinstance(value, bool):
                name = self.names.get(text := str(value))
                if name is not None and len(text) >= _SHORTEST_WHOLE:
                    return name
                return self.elsewhere(value) if isinstance(value, str) else value
            case Map():
                return Map(tuple((name, self._show_decided(each)) for name, each in value.items))
            case tuple() if type(value) is tuple:
                return tuple(map(self._show_decided, value))
            case _:
                return value


NAME_VEIL: Final = Disclosure(is_nameless=True)
"""For names, of which nobody asks whether their secrets are equal."""


def _thaw(value: Any) -> Any:
    """Encoded JSON out of an argument: tuples become lists."""
    return list(map(_thaw, value)) if isinstance(value, tuple) else value
