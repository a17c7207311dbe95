"""Audits of the shipped examples, each made once per test run: one takes seconds."""

from functools import cache

from glassformer.audit.example_file import load_example
from glassformer.audit.judgement import audit
from glassformer.audit.verdicts import Audit


@cache
def audit_of(name: str) -> Audit:
    return audit(load_example(name))
