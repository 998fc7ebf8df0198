"""Facts found in a text by rules, in Chinese and English, without a model."""

from octavo.layers.rules.extractor import RuleExtractor, categorise, find_category

__all__ = ["RuleExtractor", "categorise", "find_category"]
