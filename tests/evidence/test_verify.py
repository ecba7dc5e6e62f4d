"""The verifier says what is wrong with a copy, and holds each limit to the last unit."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from statediff_lab.commands.conforming import read_vectors

from statediff.evidence import verify as v

VECTORS = {name: (files, trust, expect) for name, files, trust, expect in read_vectors()}
FILES, TRUST = VECTORS["match-open-to-auditor-auditor-copy"][:2]
HEADS = [FILES["envelope.json"], FILES["manifest.json"]]
KEY = "ab" * 32

# What each vector is there for: it must be refused for that, and not because it is wrong by chance.
WHY = {
    "summary#: codes is not of its kind":
        "says-a-summary-of-codes-that-are-no-list",
    "summary#: clauses is not of its kind":
        "says-a-summary-of-clauses-that-are-no-list",
    "envelope.json: the key of Bo was not valid at 2026-03-01 12:00:00+00:00":
        "signed-together-by-ada-and-bo-who-is-over",
    "log.tlog-proof: the key of Ada was not valid at 2026-03-01 12:00:05+00:00":
        "log-proof-of-which-the-last-time-does-not-count",
    "log.tlog-proof: signed at no time: 1099511627776":
        "log-proof-of-which-one-time-is-none",
    "log.tlog-proof: '— ":
        "log-proof-with-a-signature-by-no-origin",
    "log.tlog-proof: entry: a text of more than 4000 characters":
        "log-proof-of-an-entry-of-4001-characters",
    "a sealed bundle has exactly the files envelope.json, leaves.json, manifest.json, and may have":
        "a-file-missing a-file-too-many",
    "envelope.json: not canonical JSON: ": "envelope-cut-short envelope-with-a-mark envelope-empty",
    "envelope.json: the bytes are not in canonical form":
        "envelope-with-a-newline envelope-with-spaces",
    "envelope.json: expected exactly payload, payloadType, signatures":
        "envelope-with-more envelope-without-type envelope-a-list envelope-with-a-name-twice",
    "envelope.json: signatures is not of its kind": "signatures-of-another-kind",
    "envelope.json: expected payloadType application/vnd.in-toto+json": "another-payload-type",
    "envelope.json: payload is not the one base64 of its bytes": "payload-with-a-newline",
    "envelope.json: what was signed is another manifest":
        "payload-of-another-bundle statement-of-another-kind "
        "statement-without-a-predicate "
        "statement-with-another-predicate statement-with-two-subjects statement-without-a-subject "
        "statement-of-another-file statement-with-a-weak-digest-too statement-with-another-member "
        "manifest-of-another-bundle manifest-changed-after-signing",
    "envelope.json: payload: not canonical JSON: ": "payload-empty",
    "envelope.json: payload: the bytes are not in canonical form": "statement-not-canonical",
    "envelope.json: predicate: not what the manifest and the summary say":
        "predicate-with-another-result-for-an-auditor predicate-with-another-result-for-the-public "
        "predicate-with-a-result-that-is-none-for-an-auditor "
        "predicate-with-a-test-too-few-for-an-auditor "
        "predicate-with-a-test-too-many-for-an-auditor "
        "predicate-with-a-test-twice-for-an-auditor "
        "predicate-with-tests-in-another-order-for-an-auditor "
        "predicate-with-a-configuration-of-another-name-for-an-auditor "
        "predicate-with-a-configuration-with-more-for-an-auditor "
        "predicate-with-a-plain-digest-of-the-contract-for-an-auditor",
    "envelope.json: predicate: expected exactly configuration, failedTests, passedTests, result, "
    "warnedTests":
        "predicate-with-a-result-without-a-word-for-an-auditor predicate-with-a-url-for-an-auditor "
        "predicate-with-no-list-of-failed-tests-for-an-auditor "
        "no-predicate-for-an-auditor no-predicate-for-the-public",
    "envelope.json: predicate: its tests do not make the manifest's MATCH":
        "predicate-with-no-tests-for-an-auditor predicate-with-a-test-that-fails-for-an-auditor "
        "predicate-with-a-test-that-fails-for-the-public "
        "predicate-with-a-test-that-warns-for-an-auditor "
        "predicate-with-a-test-that-warns-for-the-public predicate-of-no-test-beside-no-summary",
    "envelope.json: predicate: a test has no name":
        "predicate-with-a-test-that-is-a-number-for-an-auditor "
        "predicate-with-a-test-that-is-a-number-for-the-public",
    "envelope.json: predicate: passedTests is not of its kind":
        "predicate-with-tests-that-are-a-word-for-an-auditor",
    "envelope.json: predicate: its configuration is not the contract, by its leaf":
        "predicate-with-no-configuration-for-an-auditor "
        "predicate-with-two-configurations-for-an-auditor "
        "predicate-with-a-digest-that-is-none-for-an-auditor "
        "predicate-with-a-digest-that-is-none-for-the-public",
    "envelope.json: predicate: no leaf is the contract that it names":
        "predicate-with-a-digest-of-no-leaf-for-an-auditor "
        "predicate-with-a-digest-of-no-leaf-for-the-public predicate-with-a-digest-of-another-leaf",
    "envelope.json: expected one signature":
        "signed-together-by-two-where-one-is-asked "
        "two-trusted-signers two-trusted-signers-in-another-order signed-by-a-stranger-too "
        "signed-by-the-same-key-twice nine-signatures no-signatures",
    "envelope.json: signature: expected exactly keyid, sig":
        "signature-without-key signature-with-a-certificate",
    "envelope.json: signature: sig is not of its kind": "signature-not-text",
    "envelope.json: key '56475aa75463474c' is not trusted":
        "trusting-nobody trusting-eve trusting-another-ada",
    "envelope.json: key '56475AA75463474C' is not trusted": "key-in-capitals",
    "envelope.json: key '' is not trusted": "key-empty",
    "envelope.json: Ada is not trusted as evaluator": "trusting-ada-reviews",
    "envelope.json: the key of Ada was not valid at 2026-03-01 12:00:00+00:00":
        "signed-together-by-ada-who-is-over-and-bo "
        "trusting-ada-later trusting-ada-until-noon",
    "envelope.json: sig is not base64": "signature-unpadded",
    "envelope.json: sig is not the one base64 of its bytes":
        "signature-with-a-space signature-url-safe",
    "envelope.json: the signature of Ada does not fit":
        "signature-that-fits-eight-times "
        "signature-by-another-key signature-without-its-frame signature-over-another-kind "
        "signature-plus-the-order signature-of-zeros signature-cut-short signature-empty",
    "trust file: one key stands twice": "trusting-ada-twice",
    "trust file: the key of 'Zoe' is of small order, or encoded otherwise":
        "trusting-a-key-of-small-order trusting-a-key-of-order-8 "
        "trusting-a-key-of-small-order-with-a-sign trusting-a-key-encoded-otherwise",
    "log.tlog-proof: '\u2014 x AAAAAA==' has no signature":
        "log-proof-with-a-signature-line-of-a-hash-alone",
    "manifest.json: not canonical JSON: ": "manifest-cut-short manifest-with-a-mark manifest-empty",
    "manifest.json: not canonical JSON: an object has two members of one name":
        "manifest-with-a-name-twice",
    "manifest.json: the bytes are not in canonical form":
        "manifest-with-a-newline manifest-with-spaces",
    "manifest.json: expected exactly contract, contract_version, format, kernel, sealed_at, "
    "statediff, tree, trial, verdict": "manifest-with-more manifest-without-a-trial",
    "manifest.json: trial is not of its kind": "manifest-with-a-number-for-a-name",
    "manifest.json: expected format statediff/sealed/1.1, found 'statediff/sealed/2'":
        "manifest-of-another-format",
    "manifest.json: 'PASS' is no verdict": "manifest-with-another-verdict",
    "manifest.json: sealed_at: expected an instant such as ":
        "manifest-sealed-in-local-time manifest-sealed-without-zone",
    "manifest.json: sealed_at: ":
        "manifest-sealed-in-february manifest-sealed-in-the-24th-hour",
    "manifest.json: tree: expected exactly leaves, root, tags": "with-a-tree-with-more",
    "manifest.json: tree: leaves is not of its kind": "with-true-leaves with-a-text-of-leaves",
    "manifest.json: tree: root is not of its kind": "with-no-text-for-a-root",
    "manifest.json: tree: tags is not of its kind": "with-a-list-of-tags",
    "manifest.json: tree: not a number of leaves and a root":
        "manifest-with-a-root-in-capitals manifest-with-no-leaves with-nothing",
    "manifest.json: tree: tags are tier/kind, each with how many leaves it has":
        "manifest-that-counts-true manifest-with-an-empty-tag manifest-with-an-unknown-tier "
        "with-a-true-leaf with-a-tag-of-another-tier with-a-tag-without-leaves",
    "manifest.json: tree: the tags do not add up to the leaves":
        "manifest-that-counts-one-more with-tags-that-add-up-to-more",
    "leaves.json: not canonical JSON: ":
        "leaves-cut-short leaves-empty leaves-with-half-a-character",
    "leaves.json: not canonical JSON: the number 1e2 is not allowed": "leaves-with-a-float",
    "leaves.json: not canonical JSON: the number 9007199254740992 is not allowed":
        "with-a-number-too-large",
    "leaves.json: not canonical JSON: the number -9007199254740992 is not allowed":
        "with-a-number-too-small",
    "leaves.json: nested deeper than 256 levels": "with-a-leaf-nested-too-deep",
    "leaves.json: a leaf is [tier/kind, salt, [path, value]]":
        "leaf-too-long leaf-without-place with-a-salt-too-short with-a-salt-too-long "
        "with-a-leaf-without-a-place with-a-leaf-of-another-tier leaves-with-a-mark "
        "leaves-with-spaces leaves-nested-too-deep",
    "leaves.json: the bytes are not in canonical form":
        "leaf-not-a-list leaves-with-more names-in-the-order-of-code-points leaves-with-a-newline "
        "leaves-with-a-name-twice",
    "leaves.json: what is withheld is not a list of hashes": "hash-in-capitals hash-not-text",
    "leaves.json: the hashes are not in order": "hashes-out-of-order with-hashes-out-of-order",
    "leaves.json: two leaves stand at one place": "leaf-twice with-two-leaves-at-one-place",
    "leaves.json: the leaves are not in the order of their hashes": "leaves-out-of-order",
    "leaves.json: a leaf stands twice":
        "hash-twice hash-of-a-disclosed-leaf with-a-leaf-twice with-a-hash-twice",
    "leaves.json: 32 leaves, where 33 were signed": "leaf-left-out hash-left-out",
    "leaves.json: 34 leaves, where 33 were signed":
        "hash-of-zeros-added leaves-of-another-bundle",
    "leaves.json: 32 leaves, where 64 were signed": "inner-nodes-passed-off-as-leaves",
    "leaves.json: more leaves than the 34 that were signed": "with-fewer-leaves-than-there-are",
    "leaves.json: 35 leaves, where 36 were signed": "with-a-withheld-leaf-more",
    "leaves.json: the leaves do not give the signed root":
        "manifest-with-another-root leaf-with-another-value leaf-at-another-place "
        "leaf-with-another-salt leaf-with-another-tag",
    "leaves.json: more leaves of 'auditor/undisclosed' than were signed":
        "with-a-leaf-for-one-of-another-tag",
    "leaves.json: more leaves of 'auditor/raw' than were signed":
        "with-two-leaves-for-one-of-a-tag",
    "summary#: its clauses do not make the manifest's MATCH":
        "says-a-clause-that-fails says-a-clause-that-is-unknown says-no-clause",
    "summary#: its clauses do not make the manifest's DIVERGE":
        "says-diverge-over-leaves-that-match says-diverge-in-a-public-copy-of-them",
    "summary#: its clauses do not make the manifest's INCONCLUSIVE":
        "says-inconclusive-over-leaves-that-match says-inconclusive-in-a-public-copy-of-them",
    "summary#: its results do not make the manifest's MATCH":
        "says-another-outcome says-another-task",
    "summary#: 'TRUE' is no truth": "says-a-clause-of-no-truth",
    "summary#: a result is no verdict": "says-an-outcome-that-is-none",
    "summary#: clause: expected exactly clause, stage, truth": "says-a-clause-with-more",
    "summary#: expected exactly clauses, codes, results":
        "says-a-summary-with-more says-a-summary-that-is-none",
    "summary#: results: expected exactly outcome, task, tool": "says-a-result-more",
    "'judgement.json#/clauses/0': not what the summary says of it":
        "says-a-clause-of-another-name says-a-judged-clause-that-fails "
        "says-a-judged-clause-that-is-none",
    "judgement.json: it does not say the manifest's MATCH":
        "says-a-judgement-of-another-verdict",
    "judgement.json: no array of its pieces at '/clauses'": "says-a-judgement-that-is-none",
    "judgement.json: its clauses are not those of the summary": "says-a-clause-too-few",
    "judgement.json: its results are not those of the summary": "says-a-judgement-of-other-results",
    "manifest.json: `contract` is not what the sealed bundle says":
        "says-an-inner-manifest-that-is-none",
    "manifest.json: `trial` is not what the sealed bundle says":
        "says-an-inner-manifest-of-another-trial",
    "manifest.json: `verdict` is not what the sealed bundle says":
        "says-an-inner-manifest-of-another-verdict",
    "leaves.json: fragments.json# is not [document, [[pointer, length], ...]]":
        "says-a-cut-twice "
        "says-a-rest-without-its-cuts says-a-cut-of-another-form says-a-cut-of-less-than-none "
        "says-a-cut-that-is-true",
    "leaves.json: trace.json# is not [document, [[pointer, length], ...]]":
        "says-a-rest-that-is-none",
    "leaves.json: a leaf at 'fragments.json#/0/rows/0' has the tag ":
        "with-a-piece-of-fragments-as-raw with-a-fragment-as-a-trace",
    "leaves.json: a leaf at 'judgement.json#/clauses/0' has the tag 'auditor/raw'":
        "with-a-piece-of-judgement-as-raw",
    "leaves.json: fragments.json has another number of leaves than it says":
        "says-a-piece-too-few with-a-piece-of-fragments-withheld-as-raw",
    "leaves.json: judgement.json has another number of leaves than it says":
        "says-a-judged-clause-at-01 with-a-piece-of-judgement-withheld-as-raw",
    "manifest.json: tree: expected one summary, for the public":
        "without-any-summary with-two-summaries with-the-summary-for-reviewers "
        "with-the-summary-as-another-kind with-a-fragment-as-a-public-summary",
    "manifest.json: tree: no leaf of answer.json was sealed":
        "without-any-answer with-all-evidence-as-raw with-all-evidence-withheld-as-raw",
    **{f"manifest.json: tree: no leaf of {part} was sealed": f"without-any-{part.split('.')[0]}"
       for part in v.PARTS if part != "answer.json"},
    "manifest.json: tree: 'public/raw' is for auditors": "with-a-raw-capture-for-everybody",
    "leaves.json: no file has a place for a leaf at 'review#/0'": "with-a-review-in-pieces",
    "leaves.json: no file has a place for a leaf at 'review.json#'": "with-a-review-of-a-file",
    "manifest.json: tree: 2 leaves of 'reviewer/review' belong to no bundle": "with-two-reviews",
    "manifest.json: tree: 'public/review' is for reviewers": "with-a-review-for-the-public",
    "manifest.json: tree: 'auditor/review' is for reviewers": "with-a-review-for-the-auditor",
    "trust file: a name has 1 to 200 characters, and no control character":
        "trusting-a-name-with-a-newline trusting-a-name-with-an-escape "
        "trusting-a-name-with-another-end-of-line trusting-a-name-with-half-a-character "
        "trusting-a-name-too-long trusting-an-empty-name",
    "trust file: expected exactly format, keys":
        "trusting-a-threshold-in-the-older-format trusting-a-file-of-nothing",
    "trust file: key: expected exactly from, key, name, roles, until":
        "trusting-names-joined-by-a-newline",
    "trust file: key: name is not of its kind": "trusting-a-name-that-is-none",
    "trust file: key: roles is not of its kind":
        "trusting-roles-that-are-a-word trusting-roles-that-are-an-object",
    "trust file: not canonical JSON: the number 1":
        "trusting-a-threshold-with-a-point trusting-a-threshold-with-an-exponent",
    "trust file: not canonical JSON: ":
        "trusting-a-file-in-utf-16 trusting-a-file-with-a-comma-too-many "
        "trusting-a-file-with-a-mark trusting-an-empty-file trusting-a-file-with-more-after-it "
        "trusting-a-file-with-a-comment trusting-a-file-nested-too-deep",
    "trust file: not canonical JSON: an object has two members of one name":
        "trusting-a-file-with-a-name-twice trusting-a-file-with-a-name-twice-by-escape "
        "trusting-a-file-with-keys-twice",
    "trust file: the key of 'Ada' is not 64 hexadecimal digits":
        "trusting-a-key-in-capitals trusting-a-key-too-long trusting-a-key-with-a-newline",
    "trust file: the roles of 'Ada' are not a list of words":
        "trusting-roles-of-numbers trusting-roles-of-lists trusting-roles-of-nothing "
        "trusting-roles-with-an-empty-one",
    "trust file: until: expected an instant such as 2026-01-31T09:00:00+00:00":
        "trusting-a-time-without-zone trusting-a-time-in-other-digits "
        "trusting-a-time-with-milliseconds trusting-a-time-that-is-a-number "
        "trusting-a-time-that-is-false trusting-a-time-that-is-empty",
    "trust file: until: ": "trusting-a-time-that-is-none trusting-a-time-in-the-year-0",
    "leaves.json: roots.json# is not [document, [[pointer, length], ...]]":
        "states-with-roots-without-their-cuts",
    "manifest.json: its files are not those that there are leaves of":
        "states-with-no-roots observed-that-the-bundle-does-not-list "
        "observed-that-the-bundle-lists-and-has-not observed-in-a-bundle-without-roots",
    "leaves.json: nothing but raw captures is withheld, and captures.json is missing":
        "states-with-no-captures",
    "fragments.json: what changed of 'item' is not all there":
        "states-with-a-changed-type-of-which-nothing-is-there "
        "states-with-an-enumeration-in-place-of-a-mapping "
        "states-with-a-mapping-in-place-of-an-enumeration "
        "states-with-a-row-left-out-on-one-side states-with-a-row-left-out-on-both-sides",
    "fragments.json#/0/rows/0: not the row that the state roots have":
        "states-with-another-value-in-a-row states-with-a-row-that-is-not-there-any-more "
        "states-with-a-row-on-the-other-side",
    "fragments.json#/0/rows/0: no row of the state roots":
        "states-with-a-row-of-another-key states-with-a-row-of-another-type "
        "states-with-a-row-of-no-type",
    "fragments.json: a row is of another shape":
        "states-with-a-row-without-fields states-with-a-key-that-is-no-list",
    "roots.json: the types do not give the roots in captures.json":
        "states-with-another-root-before states-with-no-root-after "
        "states-with-no-roots-in-the-captures roots-with-other-paths "
        "roots-with-a-type-left-out roots-with-a-type-twice roots-with-another-rows-root "
        "roots-with-another-coverage",
    "captures.json: no array of its pieces at '/enumerations/*'":
        "states-with-enumerations-of-another-kind",
    "roots.json: not of form statediff/roots/1":
        "roots-of-another-form",
    "roots.json: expected exactly form, opened, paths, scanned, types":
        "roots-with-more",
    "roots.json: a type is [source, type, before, after]":
        "roots-with-a-type-on-no-side roots-with-a-short-digest",
    "fragments.json#/0/rows/4: no row of the state roots":
        "roots-with-nothing-opened roots-with-a-type-not-opened",
    "roots.json: a type is opened twice":
        "roots-with-a-type-opened-twice",
    "roots.json: what is opened is no type of it":
        "roots-with-no-such-type-opened",
    "roots.json: opened: expected exactly nodes, others, rows, source, type":
        "roots-with-an-opening-with-more",
    "roots.json: the rows of 'item' do not give their root":
        "roots-with-a-row-not-opened roots-with-another-digest roots-with-a-row-as-it-was "
        "roots-with-another-leaf-left-out roots-with-no-nodes",
    "roots.json: a row is opened twice":
        "roots-with-a-row-twice",
    "fragments.json#/0/rows/2: not the row that the state roots have":
        "roots-with-another-salt",
    "roots.json: a row is [key, salt, before, after]":
        "roots-with-a-salt-too-short roots-with-a-row-of-two-sides",
    "roots.json: another leaf is [path, digest]":
        "roots-with-a-leaf-of-no-digest",
    "roots.json: two pieces of a tree are at one place":
        "roots-with-a-leaf-in-place-of-a-row",
    "roots.json: nodes are cut short, or written in two ways":
        "roots-with-nodes-cut-short roots-with-a-node-in-two-ways",
    "roots.json: nodes are no bytes":
        "roots-with-nodes-in-capitals",
    "roots.json: a row is where something else is":
        "roots-with-an-empty-row-at-another-leaf roots-with-an-empty-row-below-a-node "
        "roots-with-a-node-for-all",
    "envelope.json: expected 2":
        "signed-together-by-one-where-two-are-asked "
        "signed-together-by-three-where-two-are-asked",
    "envelope.json: the signatures are not in the order of their keys":
        "signed-together-by-the-same-one-twice signed-together-by-both-in-another-order",
    "envelope.json: key '947561e3eb43b38b' is not trusted":
        "signed-together-by-one-and-a-stranger",
    "envelope.json: Eve is not trusted as evaluator":
        "signed-together-by-one-and-a-reviewer",
    "envelope.json: the signature of Bo does not fit":
        "signed-together-of-which-the-second-does-not-fit",
    "trust file: expected exactly format, keys, threshold":
        "trusting-no-threshold",
    "trust file: 0 is no number of its keys that are trusted as evaluator":
        "trusting-a-threshold-of-none",
    "trust file: -1 is no number of its keys that are trusted as evaluator":
        "trusting-a-threshold-below-none",
    "trust file: 2 is no number of its keys that are trusted as evaluator":
        "trusting-a-threshold-of-more-than-there-are",
    "trust file: threshold is not of its kind":
        "trusting-a-threshold-that-is-true trusting-a-threshold-that-is-a-word",
    "log.tlog-proof: entry: not over this envelope":
        "log-proof-of-an-entry-of-another-form "
        "log-proof-of-another-bundle log-proof-of-another-envelope "
        "log-proof-of-another-root log-proof-of-another-kind-of-record",
    "log.tlog-proof: entry: expected exactly about, at, digest, form, kind, said":
        "log-proof-of-a-verdict log-proof-with-an-entry-of-more",
    "log.tlog-proof: entry: it says another thing than the manifest":
        "log-proof-that-says-another-verdict log-proof-that-says-another-contract",
    "log.tlog-proof: entry: expected exactly by, contract, verdict":
        "log-proof-that-says-more",
    "log.tlog-proof: no signature of its log by a key that is trusted as evaluator":
        "log-proof-by-a-stranger log-proof-signed-only-with-a-time "
        "log-proof-with-another-origin",
    "log.tlog-proof: of ":
        "log-proof-of-long-before",
    "log.tlog-proof: the entry is not in the log of its checkpoint":
        "log-proof-with-another-size "
        "log-proof-with-another-index log-proof-with-an-index-beyond "
        "log-proof-without-a-step log-proof-with-a-step-twice "
        "log-proof-with-steps-in-another-order",
    "log.tlog-proof: no index of an entry, or too many steps":
        "log-proof-with-a-leading-zero log-proof-with-64-steps",
    "log.tlog-proof: expected the lines of the entry and of its index":
        "log-proof-with-another-word-for-its-index log-proof-with-another-word-for-its-entry "
        "log-proof-without-an-index log-proof-with-another-first-line "
        "log-proof-that-is-empty",
    "log.tlog-proof: '":
        "log-proof-with-a-step-cut-short",
    "log.tlog-proof: entry is not the one base64 of its bytes":
        "log-proof-with-an-entry-that-is-no-base64",
    "log.tlog-proof: entry: the bytes are not in canonical form":
        "log-proof-with-an-entry-that-is-not-canonical",
    "log.tlog-proof: it has no checkpoint":
        "log-proof-with-an-empty-line-in-its-checkpoint "
        "log-proof-with-a-checkpoint-of-two-lines log-proof-without-an-empty-line "
        "log-proof-without-a-checkpoint log-proof-without-signatures "
        "log-proof-without-its-last-newline",
    "log.tlog-proof: Ada does not say when it was signed":
        "log-proof-of-which-the-first-key-says-no-time "
        "log-proof-signed-without-a-time log-proof-with-the-time-of-a-stranger",
    "log.tlog-proof: the signature of Ada does not fit":
        "log-proof-of-which-one-signature-does-not-fit "
        "log-proof-of-which-one-time-does-not-fit "
        "log-proof-with-a-further-line",
    "log.tlog-proof: its checkpoint has no origin and number of entries":
        "log-proof-with-an-origin-that-is-none",
    "log.tlog-proof: 'Ada signed this' is no line of a signature":
        "log-proof-with-a-signature-line-of-another-form",
    "log.tlog-proof: a control character stands in it":
        "log-proof-with-a-return",
    "log.tlog-proof: not UTF-8: 'utf-8' ":
        "log-proof-that-is-not-utf-8",
    "log.tlog-proof: more than 65536 bytes":
        "log-proof-that-is-too-large",
    "log.tlog-proof: the key of Ada was not valid at ":
        "log-proof-by-a-key-that-was-over",
    "stamp.tsr: over another envelope":
        "stamp-over-another-envelope",
    "stamp.tsr: not a time stamp over a SHA-256":
        "stamp-over-other-content "
        "stamp-that-was-refused stamp-over-a-weaker-digest stamp-of-another-kind",
    "stamp.tsr: of ":
        "stamp-of-long-before",
    "stamp.tsr: it says no time":
        "stamp-with-a-month-that-is-none stamp-with-a-second-too-many stamp-in-the-year-0 "
        "stamp-with-a-point-alone stamp-with-ten-digits-of-a-fraction "
        "stamp-of-no-time stamp-of-local-time stamp-without-seconds",
    "stamp.tsr: not an answer with a token":
        "stamp-with-more-behind-its-inner-content stamp-with-more-behind-its-info "
        "stamp-with-more-behind-its-token stamp-with-more-behind-its-signed-data "
        "stamp-with-more-behind-its-content stamp-with-more-behind-its-octets "
        "stamp-with-more-behind-its-digest "
        "stamp-without-a-token stamp-twice stamp-that-is-empty",
    "stamp.tsr: not DER":
        "stamp-with-its-last-element-cut-short "
        "stamp-cut-short stamp-that-is-text stamp-of-indefinite-length "
        "stamp-with-a-long-length",
    "stamp.tsr: more than 65536 bytes":
        "stamp-that-is-too-large",
    "a sealed bundle has exactly the files envelope.json, leaves.json, manifest.json, and "
    "may have log.tlog-proof and stamp.tsr":
        "stamp-of-another-name",
    "leaves.json: judgement.json# is not [document, [[pointer, length], ...]]":
        "says-a-judgement-that-is-a-number says-a-judgement-without-a-rest",
}  # fmt: skip
SIGNERS = {
    "signed-together-by-both-whose-trust-is-in-another-order": ("Ada", "Bo"),
    "signed-together-by-both": ("Ada", "Bo"),
    "signed-together-by-two-of-three": ("Ada", "Eve"),
}
OBSERVED = {
    "trace.json: trace: not": "a-call-left-out another-call a-trace-that-calls-itself-complete",
    "answer.json: answer: not": "another-answer another-salt",
    "timeline.json: times: not": "another-time no-times",
    "captures.json: states: not":
        "another-time-of-a-reading another-reader another-state another-history",
    "schema.json: schema: not": "another-schema for-reviewers-with-another-schema",
    "trial.json: trial: not": "another-isolation another-seed",
    "trial.json: ending: not": "another-ending an-ending-that-was-another",
    "trial.json: agent: not": "another-agent",
    "agent: ": "an-agent-with-more an-agent-of-a-number",
    "an opening is ":
        "an-agent-that-is-not-shown a-salt-of-no-digits another-part-opened "
        "an-opening-with-more an-opening-that-is-none",
    "not an opening for each part": "an-opening-left-out",
    "of the trial 'trial-2', not of this one": "of-another-trial",
    "of 2026-03-01 12:06:00+00:00, after the sealing": "after-the-sealing",
    "Ada is not trusted as observer": "by-the-sealing-key",
    "Bo is not trusted as observer": "by-an-evaluator",
    "Ada sealed the copy too": "by-the-sealing-key-that-may",
    "key '": "by-a-stranger by-nobody-who-is-known",
    "the key of Rita was not valid": "before-the-key-was-valid when-the-key-was-over",
    "the signature of Rita does not fit": "whose-signature-is-another",
    "":
        "with-more-in-the-predicate of-the-form-of-a-seal of-another-statement of-no-time "
        "with-more-in-the-statement that-is-no-statement in-another-form without-a-part "
        "in-another-order of-a-digest-that-is-none of-two-digests of-a-part-with-more "
        "of-parts-that-are-misnumbered of-a-part-with-no-number whose-signature-is-no-base64 "
        "whose-signature-has-more signed-twice signed-by-nobody of-another-payload-type "
        "whose-envelope-has-more with-more whose-envelope-is-none "
        "of-what-the-bundle-says-it-shows of-less-than-the-bundle-shows",
}  # fmt: skip
"""Those of copies in which an observer signed another thing."""
WHY |= {
    f"observation.json: {why}": " ".join(f"observed-{name}" for name in names.split())
    for why, names in OBSERVED.items()
} | {
    "captures.json: has no history": "observed-no-history",
    "trial.json: is no object": "observed-a-trial-that-is-no-object",
}  # fmt: skip
REASON = {name: why for why, names in WHY.items() for name in names.split()}


def test_every_vector_that_must_be_refused_has_its_reason() -> None:
    assert set(REASON) == {name for name, (_, _, expect) in VECTORS.items() if expect == "INVALID"}


@pytest.mark.parametrize("name", sorted(set(VECTORS) - set(REASON)))
def test_a_genuine_copy_says_who_sealed_it_and_what_is_withheld(name: str) -> None:
    files, trust, status = VECTORS[name]
    found = v.verify(files, v.read_trust(trust))
    assert (found.status, found.signers) == (status, SIGNERS.get(name, ("Ada",)))
    assert sum(found.withheld.values()) == len(found.hidden)
    assert len(found.leaves) + len(found.hidden) == found.manifest["tree"]["leaves"]
    assert all(tag == v.RAW for tag in found.withheld) == (status == "VALID")


@pytest.mark.parametrize("name", REASON)
def test_a_copy_is_refused_for_what_is_wrong_with_it(name: str) -> None:
    files, trust, _ = VECTORS[name]
    with pytest.raises(v.Rejected, match=f"^{re.escape(REASON[name])}"):
        v.verify(files, v.read_trust(trust))


@pytest.mark.parametrize(
    ("leaves", "why"),
    [
        (b'{"disclosed":[],"withheld":0}', "leaves.json: withheld is not of its kind"),
        (b'{"disclosed":[],"withheld":{}}', "leaves.json: withheld is not of its kind"),
        (b'{"disclosed":[],"withheld":[],"x":0}', "leaves.json: expected exactly withheld"),
        (b'{"disclosed":[],"with":[]}', "leaves.json: not canonical JSON: "),
        (b'{"disclosed":[]', "leaves.json: not canonical JSON: "),
    ],
)
def test_leaves_that_are_no_list_of_leaves_and_hashes_are_refused(leaves: bytes, why: str) -> None:
    with pytest.raises(v.Rejected, match=f"^{re.escape(why)}"):
        v.verify({**FILES, "leaves.json": leaves}, v.read_trust(TRUST))


# Limits


def verified() -> None:
    v.verify(FILES, v.read_trust(TRUST))


@pytest.mark.parametrize(
    ("limit", "most", "check", "why"),
    [
        ("MAX_LEAVES", json.loads(FILES["manifest.json"])["tree"]["leaves"], verified,
         "manifest.json: tree: not a number"),
        ("MAX_BYTES", len(FILES["leaves.json"]), verified, "leaves.json: more than"),
        ("MAX_HEAD_BYTES", max(map(len, HEADS)), verified, "envelope.json: more than"),
        ("MAX_HEAD_BYTES", len(TRUST), lambda: v.read_trust(TRUST), "trust file: more than"),
        ("MAX_BYTES", 3, lambda: v.parse(b"[1]", "x"), "x: more than 2 bytes"),
        ("MAX_DEPTH", 3, lambda: v.parse(b'[[["[[]"]],{}]', "x"), "x: nested deeper than 2"),
        ("MAX_DEPTH", 3, lambda: v.parse(b'{"a":{"a":{}}}', "x"), "x: nested deeper than 2"),
        ("MAX_DEPTH", 3, lambda: v.parse(b'{"a":[{"[":"{"}]}', "x"), "x: nested deeper than 2"),
    ],
)  # fmt: skip
def test_a_limit_is_the_most_that_is_taken(
    limit: str, most: int, check: Callable[[], Any], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(v, limit, most)
    check()
    monkeypatch.setattr(v, limit, most - 1)
    with pytest.raises(v.Rejected, match=f"^{re.escape(why)}"):
        check()


def test_nothing_large_is_read_before_the_signature_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    large = b'{"format":[' + b"[1]," * 5_000_000 + b"[1]]}"
    keys = v.read_trust(TRUST)
    monkeypatch.setattr(v, "_DECODER", None)  # not even read
    for name in ("envelope.json", "manifest.json"):
        with pytest.raises(v.Rejected, match=rf"^{name}: more than 1048576 bytes"):
            v.verify({**FILES, name: large}, keys)
    monkeypatch.undo()
    read: list[str] = []
    loose = v._loose
    monkeypatch.setattr(v, "_loose", lambda *given: read.append(given[1]) or loose(*given))
    with pytest.raises(v.Rejected, match=r"^envelope\.json: what was signed is another manifest"):
        v.verify({**FILES, "manifest.json": b" " + FILES["manifest.json"]}, keys)
    assert read == ["envelope.json", "envelope.json: payload"]


# Programs of their own


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(([sys.executable], "verify.py", "checks.py"), id="python"),
        pytest.param((["node"], "verify.mjs", "checks.mjs"), id="node", marks=pytest.mark.node),
    ],
)
def test_a_verifier_by_any_name_does_its_work_or_ends_with_2(
    program: tuple[list[str], str, str], tmp_path: Path
) -> None:
    start, source, name = program
    script = tmp_path / name
    script.write_bytes(Path(v.__file__).with_name(source).read_bytes())
    link = tmp_path / f"linked{script.suffix}"
    link.symlink_to(script)
    sealed, trust = tmp_path / "sealed", tmp_path / "trust.json"
    trust.write_bytes(TRUST)
    sealed.mkdir()
    for each, data in FILES.items():
        (sealed / each).write_bytes(data)

    def ends(*arguments: object, by: Path = script) -> int:
        command = [*start, str(by), *map(str, arguments)]
        return subprocess.run(command, capture_output=True, cwd=tmp_path, check=False).returncode

    zipped = tmp_path / "sealed.zip"
    zipped.write_bytes(v.zipped(FILES))
    assert ends(sealed, trust) == ends(sealed, trust, by=link) == ends(zipped, trust) == 0
    assert {
        ends(), ends(sealed), ends(sealed, trust, trust), ends("x", "y"), ends(sealed, "y"),
        ends("x", trust),
    } == {2}  # fmt: skip
    zipped.write_bytes(v.zipped(FILES) + b"\n")
    assert ends(zipped, trust) == ends(trust, trust) == 4
    (sealed / "notes.txt").write_text("more")
    assert ends(sealed, trust) == 4


# Trust files


def trust_file(**changed: Any) -> bytes:
    entry = {"name": "A", "key": KEY, "roles": ["evaluator"], "from": None, "until": None}
    return json.dumps({"format": v.TRUST, "keys": [{**entry, **changed}]}).encode()


def test_a_trust_file_says_whose_key_it_is_for_what_and_for_how_long() -> None:
    start, end = "2026-01-01T00:00:00+00:00", "2026-01-02T00:00:00.000001+00:00"
    (read,) = v.read_trust(trust_file(**{"from": start, "until": end}))
    assert (read.name, read.key.hex(), read.roles) == ("A", KEY, ("evaluator",))
    assert read.valid_from is not None
    assert read.valid_until is not None
    assert (read.valid_from.isoformat(), read.valid_until.isoformat()) == (start, end)
    (unlimited,) = v.read_trust(trust_file())
    assert (unlimited.valid_from, unlimited.valid_until) == (None, None)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\xff", "trust file: not canonical JSON: "),
        (b"[]", "trust file: expected exactly format, keys"),
        (json.dumps({"format": v.TRUST, "keys": [], "more": 0}).encode(),
         "trust file: expected exactly format, keys"),
        (json.dumps({"format": v.TRUST, "keys": {}}).encode(),
         "trust file: keys is not of its kind"),
        (json.dumps({"format": "another", "keys": []}).encode(),
         "trust file: expected format statediff/trust/1, found 'another'"),
        (trust_file(more=0), "trust file: key: expected exactly from, key, name, roles, until"),
        (trust_file(name=1), "trust file: key: name is not of its kind"),
        (trust_file(key=KEY[:-1]), "trust file: the key of 'A' is not 64 hexadecimal digits"),
        (trust_file(key=KEY[:-2] + "xy"), "trust file: the key of 'A' is not 64 hexadecimal"),
        (trust_file(roles="evaluator"), "trust file: key: roles is not of its kind"),
        (trust_file(roles=["reviewer", 1]), "trust file: the roles of 'A' are not a list of words"),
        (trust_file(**{"from": 5}), "trust file: from: expected an instant such as "),
        (trust_file(until="2026"), "trust file: until: expected an instant such as "),
        (trust_file(until="2026-02-30T00:00:00+00:00"), "trust file: until: "),
    ],
)  # fmt: skip
def test_a_trust_file_that_is_none_says_where(data: bytes, why: str) -> None:
    with pytest.raises(v.Rejected, match=f"^{re.escape(why)}"):
        v.read_trust(data)


# The tree


def by_definition(hashes: list[bytes]) -> str:
    """Leaves sorted, padded with zeros to a power of two, and hashed pair by pair."""
    level = sorted(hashes)
    while len(level) & (len(level) - 1):
        level.append(bytes(32))
    while len(level) > 1:
        level = [
            hashlib.sha256(b"\x01" + level[at] + level[at + 1]).digest()
            for at in range(0, len(level), 2)
        ]
    return level[0].hex()


@pytest.mark.parametrize("size", range(1, 18))
def test_the_root_is_that_of_the_format_whatever_the_order(size: int) -> None:
    hashes = [v.leaf_hash(bytes([n])) for n in range(size)]
    assert v.root(hashes) == v.root(hashes[::-1]) == by_definition(hashes)


def test_a_leaf_is_hashed_apart_from_a_node() -> None:
    assert v.leaf_hash(b"x") == hashlib.sha256(b"\x00x").digest()
    leaf = v.Leaf("public/x", "0" * 32, "x#", {"b": 1, "a": None})
    assert v.leaf_bytes(leaf) == b'["public/x","%s",["x#",{"a":null,"b":1}]]' % (b"0" * 32)
    assert leaf.tier == "public"


# Canonical form


def test_names_are_ordered_as_rfc_8785_orders_them() -> None:
    # The example of RFC 8785 §3.2.3.
    names = ["\r", "1", "\u0080", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]
    document = {name: [at, {"z": [], "a": ""}] for at, name in enumerate(names)}
    data = v.canonical(dict(reversed(document.items())))
    assert list(json.loads(data)) == names
    assert (
        data.replace(b"\\r", b"\r")
        == (
            "{" + ",".join(f'"{n}":[{at},{{"a":"","z":[]}}]' for at, n in enumerate(names)) + "}"
        ).encode()
    )
    assert v.parse(data, "x") == document


def test_nothing_looks_for_cycles_meanwhile_and_then_it_is_as_before() -> None:
    was_enabled = gc.isenabled()
    try:
        for choose, expected in ((gc.enable, True), (gc.disable, False)):
            choose()
            with contextlib.suppress(KeyError), v.uncollected():
                assert not gc.isenabled()
                raise KeyError
            assert gc.isenabled() is expected
    finally:
        (gc.enable if was_enabled else gc.disable)()
