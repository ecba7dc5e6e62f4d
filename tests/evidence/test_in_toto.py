"""Sealed bundles as in-toto's own bindings and securesystemslib read them."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict, Parse, ParseDict
from in_toto_attestation.predicates.test_result.v0.test_result_pb2 import TestResult as Result
from in_toto_attestation.v1.statement import Statement
from in_toto_attestation.v1.statement_pb2 import Statement as Message
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey
from statediff_lab.commands.conforming import read_vectors

from statediff.evidence import verify as v

VECTORS = {name: (files, trust) for name, files, trust, _ in read_vectors()}
VERDICTS = {"match": "PASSED", "diverge": "FAILED", "inconclusive": "WARNED"}


def payload(name: str) -> Any:
    return json.loads(base64.b64decode(json.loads(VECTORS[name][0]["envelope.json"])["payload"]))


def in_toto(document: Any) -> Any:
    """The statement as in-toto's bindings read and validate it."""
    found = Statement.copy_from_pb(Parse(json.dumps(document), Message()))
    found.validate()
    return found.pb


@pytest.mark.parametrize("tier", v.TIERS)
@pytest.mark.parametrize("verdict", VERDICTS)
def test_in_totos_bindings_validate_the_statement_and_its_test_result(
    verdict: str, tier: str
) -> None:
    document = payload(f"{verdict}-open-to-auditor-{tier}-copy")
    read = in_toto(document)
    assert read.predicate_type == "https://in-toto.io/attestation/test-result/v0.1"
    result = ParseDict(MessageToDict(read.predicate), Result())  # no field is strange to it
    assert result.result == VERDICTS[verdict]
    lists = {
        "HOLDS": result.passed_tests,
        "FAILS": result.failed_tests,
        "UNKNOWN": result.warned_tests,
    }
    files, trust = VECTORS[f"{verdict}-open-to-auditor-{tier}-copy"]
    summary = next(
        leaf.value for leaf in v.verify(files, v.read_trust(trust)).leaves if leaf.path == v.SUMMARY
    )
    for truth, names in lists.items():
        assert list(names) == [c["clause"] for c in summary["clauses"] if c["truth"] == truth]


def test_securesystemslib_verifies_the_envelope_and_no_other_key_or_payload() -> None:
    files, trust = VECTORS["match-open-to-auditor-public-copy"]
    [keyid] = (each["keyid"] for each in json.loads(files["envelope.json"])["signatures"])

    def key(public: str) -> Any:
        return SSlibKey(keyid, "ed25519", "ed25519", {"public": public})

    [own] = json.loads(trust)["keys"]
    envelope = Envelope.from_dict(json.loads(files["envelope.json"]))
    assert list(envelope.verify([key(own["key"])], 1)) == [keyid]
    with pytest.raises(VerificationError):
        envelope.verify([key("ab" * 32)], 1)
    envelope.payload = envelope.payload.replace(b"PASSED", b"FAILED")
    with pytest.raises(VerificationError):
        envelope.verify([key(own["key"])], 1)
