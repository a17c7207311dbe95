"""The slips that the audit knows, as rewritings of formulas: `CATALOGUE`, and how to add to it."""

from glassformer.lessons.auditing.slips.catalogue import CATALOGUE
from glassformer.lessons.auditing.slips.slip import Change, Scene, Slip, anywhere

__all__ = ["CATALOGUE", "Change", "Scene", "Slip", "anywhere"]
