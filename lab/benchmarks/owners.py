"""Two owners who answer the questions of a draft, each by a rule of its own.

The rules were written before any draft was asked about: Ada is careful, Ben is easy.
"""

from __future__ import annotations

from statediff.workspace.interview import Question


def ada(_question: Question) -> bool:
    """Leaves everything as it was drafted: no to whatever is asked."""
    return False


def ben(question: Question) -> bool:
    """Does not mind what a field holds, but who may do what, and which rows come and go."""
    is_privilege = question.weight[0] > 0
    is_field = "." in question.id.rpartition(" ")[2].rpartition("]")[2]
    return not is_privilege and (is_field or not question.closing)
