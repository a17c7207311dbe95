"""`glassformer audit`: every printed number of a worked example, checked."""

import json
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from glassformer.cli.output import Format, check_place, format_of, write_documents, write_text
from glassformer.errors import ConfigError, GlassformerError
from glassformer.language import spoken, words

say = words("glassformer.cli.messages")


def audit(
    example: str | None = None,
    /,
    *,
    as_json: Annotated[bool, Parameter(name="--json")] = False,
    to: Format | None = None,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
) -> None:
    """Check every printed number of a worked example; exit 1 if one is wrong."""
    from glassformer.audit.audit_report import audit_document
    from glassformer.audit.example_file import example_names, load_example
    from glassformer.audit.judgement import audit as check

    if as_json and to is not None:
        raise ConfigError("expected either --json or --to {to}, got both", to=to)
    chosen_format = "json" if as_json else format_of(to, output)
    if chosen_format in ("tex", "html", "xlsx", "slides", "worksheet") and example is None:
        raise ConfigError(
            "expected the name of an example or a file beside --to {to}", to=chosen_format
        )
    check_place(output)
    lang = spoken()
    names = example_names() if example is None else [example]
    audits = [check(load_example(name)) for name in names]
    if chosen_format == "json":
        lines = [json.dumps(found.to_dict(lang), ensure_ascii=False) for found in audits]
        write_text("\n".join(lines) + "\n", output)
    else:
        write_documents(
            [audit_document(found, lang) for found in audits], chosen_format, output, width=120
        )
    wrong = {found.example.name: found.counts["wrong"] for found in audits if not found.ok}
    if wrong:
        parts = (say("audit wrong in", count=count, name=name) for name, count in wrong.items())
        raise GlassformerError("wrong steps: {listed}", listed=say("audit comma").join(parts))
