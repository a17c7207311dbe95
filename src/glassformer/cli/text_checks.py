"""The texts, checked: `glassformer audit` their printed numbers, `claims` what they say."""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from glassformer.cli.output import (
    AsJson,
    Format,
    Output,
    format_of,
    write_documents,
    write_text,
)
from glassformer.errors import ConfigError, GlassformerError
from glassformer.language import Language, spoken, words

if TYPE_CHECKING:
    from glassformer.claims import Claim, Outcome

say = words("glassformer.cli.messages")


def audit(
    example: str | None = None,
    /,
    *,
    as_json: AsJson = False,
    to: Format | None = None,
    output: Output = None,
) -> None:
    """Check every printed number of a worked example; exit 1 if one is wrong."""
    from glassformer.audit.audit_report import audit_document
    from glassformer.audit.example_file import example_names, load_example
    from glassformer.audit.judgement import audit as check

    chosen_format = format_of(to, output, as_json=as_json)
    if chosen_format in ("tex", "html", "xlsx", "slides") and example is None:
        raise ConfigError(
            "expected the name of an example or a file beside --to {to}", to=chosen_format
        )
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


def claims(
    *ids: str,
    as_json: AsJson = False,
    to: Format | None = None,
    slow: bool = False,
    plot: Path | None = None,
    settings: Annotated[list[str] | None, Parameter(name="--set")] = None,
    output: Output = None,
) -> None:
    """Run the claims of the texts: verdict, figures, and what was measured."""
    from glassformer.claims import find
    from glassformer.claims.claim_report import claims_document, claims_page
    from glassformer.lessons.course import settings_of

    chosen_format = format_of(to, output, as_json=as_json)
    lang = spoken()
    ids, only_rows = _without_claims(ids)
    if only_rows:
        return
    chosen = find(ids)
    turned = settings_of(settings or ())
    for claim in chosen:
        claim.turned(turned)
    run = _run(chosen, turned, slow=slow)
    if plot is not None:
        run = _drawn(chosen, run, plot)
    if chosen_format == "json":
        _write_json(run, lang, output)
    elif chosen_format in ("html", "slides"):
        write_documents([claims_page(list(run), lang)], chosen_format, output, width=140)
    else:
        write_documents([claims_document(list(run), lang)], chosen_format, output, width=140)


def _without_claims(ids: tuple[str, ...]) -> tuple[tuple[str, ...], bool]:
    """Print where rows without a claim are shown; returns the other ids, and if none is left."""
    from glassformer.claims import ROWS
    from glassformer.lessons.course import row, row_ids

    shown = [id_ for id_ in ids if id_.upper() in row_ids() and id_.upper() not in ROWS]
    others = tuple(id_ for id_ in ids if id_ not in shown)
    out = sys.stderr if others else sys.stdout
    for found in map(row, shown):
        commands = [f"glassformer lesson {name}" for name in found.lessons]
        commands += [found.command] if found.command is not None else []
        name = found.name.say(spoken())
        out.write(f"{say('claims row', id=found.id, name=name, commands='; '.join(commands))}\n")
    return others, bool(shown) and not others


def _run(chosen: "list[Claim]", settings: dict[str, str], *, slow: bool) -> "Iterable[Outcome]":
    """The outcomes; on a terminal, stderr shows which claim is running."""
    from glassformer.claims import outcomes

    watched = sys.stderr.isatty()
    for at, claim in enumerate(chosen, 1):
        if watched:
            progress = say("claims progress", id=claim.id, at=at, all=len(chosen))
            sys.stderr.write(f"\r\033[K{progress}")
            sys.stderr.flush()
        found = list(outcomes([claim], slow=slow, settings=settings))
        if watched:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
        yield from found


def _write_json(run: "Iterable[Outcome]", lang: Language, output: Path | None) -> None:
    """One object per line, printed as soon as it is known: all of them take half a minute."""
    lines = (json.dumps(outcome.to_dict(lang), ensure_ascii=False) + "\n" for outcome in run)
    if output is not None:
        write_text("".join(lines), output)
        return
    for line in lines:
        sys.stdout.write(line)
        sys.stdout.flush()


def _drawn(chosen: "list[Claim]", run: "Iterable[Outcome]", folder: Path) -> "list[Outcome]":
    """The outcomes; their charts are written to a folder, as SVG."""
    from glassformer.claims.claim_figures import DRAWN
    from glassformer.claims.claim_report import claims_page
    from glassformer.documents.renderer import write_figures

    if not any(claim.id in DRAWN for claim in chosen):
        raise ConfigError(
            "none of these claims has a picture; {names} have one", names=", ".join(DRAWN)
        )
    found = list(run)
    for file in write_figures(claims_page(found, spoken()), folder):
        sys.stderr.write(f"{file}\n")
    return found
