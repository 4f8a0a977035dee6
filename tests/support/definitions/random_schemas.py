"""Random schemas and values from a few names and values, so that many values nearly fit.

The same seed gives the same ones. This is faster than hypothesis: a hundred schemas with sixty values each
take a second.
"""

from __future__ import annotations

from random import Random
from typing import Any

SCALARS = [None, True, False, 0, 1, 2, 0.5, 3, "", "a", "ab"]
TYPES = ["null", "boolean", "integer", "number", "string", "array", "object"]
MIXED: list[Any] = [True, False, {}, {}]


class Dice:
    """The schemas and values of one seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.names = ["a", "b", "ü-1"] if seed % 4 == 0 else ["a", "b"]

    # --- values ----------------------------------------------------------------------------------------

    def values(self, number: int) -> list[dict[str, Any]]:
        return [self._object([*self.names, "zz"], 2) for _ in range(number)]

    def value(self, depth: int = 2) -> Any:
        roll = self.random.random()
        if not depth or roll < 0.55:
            return self.random.choice(SCALARS)
        if roll < 0.75:
            return [self.value(depth - 1) for _ in range(self.random.randint(0, 2))]
        return self._object(self.names, depth - 1)

    def _object(self, names: list[str], depth: int) -> dict[str, Any]:
        chosen = self.random.sample(names, self.random.randint(0, len(self.names)))
        return {name: self.value(depth) for name in chosen}

    # --- schemas ---------------------------------------------------------------------------------------

    def root(self) -> dict[str, Any]:
        found = self.object(2)
        if self.random.random() < 0.4:
            found |= self.some(0.4, anyOf=self.several(2), oneOf=self.several(2), allOf=self.several(2))
            found |= self.some(0.2, **{"not": self.schema(1)})
        return {**found, "type": "object", "$defs": {"x": self.schema(2)}}

    def schema(self, depth: int) -> Any:
        roll = self.random.random()
        if not depth or roll < 0.3:
            return self.leaf()
        if roll < 0.55:
            return self.object(depth)
        if roll < 0.7:
            return self.array(depth - 1)
        return self.composition(depth)

    def leaf(self) -> Any:
        pick = self.random.choice
        match self.random.randint(0, 8):
            case 0:
                return pick(MIXED)
            case 1 | 2:
                return {"type": pick(TYPES)}
            case 3:
                return {"type": self.random.sample(TYPES, self.random.randint(1, 4))}
            case 4:
                return {"enum": [self.value(1) for _ in range(self.random.randint(1, 3))]}
            case 5:
                rules = {
                    "minLength": pick([0, 1, 2]),
                    "maxLength": pick([0, 1, 2]),
                    "pattern": pick(["^a", "b$"]),
                }
                return {"type": "string", **self.some(0.4, **rules)}
            case 6:
                limits = {
                    "minimum": pick([0, 1, 0.5]),
                    "maximum": pick([1, 2]),
                    "multipleOf": pick([1, 2, 0.5]),
                }
                limits |= {"exclusiveMinimum": pick([0, 0.5, 1]), "exclusiveMaximum": pick([1, 2, 3])}
                return {"type": pick(["integer", "number"]), **self.some(0.3, **limits)}
            case 7:
                return {"const": self.value(1)}
        return {"$ref": pick(["#/$defs/x", "#/$defs/x", "#"])}

    def object(self, depth: int) -> dict[str, Any]:
        inner = max(depth - 1, 0)
        found: dict[str, Any] = {"type": "object"} if self.random.random() < 0.85 else {}
        names = self.random.sample(self.names, self.random.randint(0, 2))
        found |= self.some(0.8, properties={name: self.schema(inner) for name in names})
        required = self.random.sample(self.names, self.random.randint(0, 2))
        rest = self.random.choice([False, False, True, self.schema(inner)])
        found |= self.some(0.45, required=required, additionalProperties=rest)
        rare = {"minProperties": 1, "maxProperties": 1, "dependentRequired": {"a": ["b"]}}
        rare |= {"patternProperties": {"^a": self.schema(inner)}, "propertyNames": {"maxLength": 1}}
        return found | self.some(0.08, **rare, dependentSchemas={"a": self.schema(inner)})

    def array(self, depth: int) -> dict[str, Any]:
        places = [self.schema(depth) for _ in range(self.random.randint(1, 2))]
        rules = {"items": self.schema(depth), "prefixItems": places, "contains": self.schema(depth)}
        rules |= {"minItems": self.random.randint(0, 1), "maxItems": self.random.randint(0, 2)}
        rules |= {"uniqueItems": True, "unevaluatedItems": self.random.choice([True, False])}
        return {"type": "array", **self.some(0.25, **rules)}

    def composition(self, depth: int) -> dict[str, Any]:
        bases = [
            {},
            {},
            {"type": self.random.choice(TYPES)},
            self.object(depth - 1),
            {"type": ["object", "null"]},
        ]
        logic = {"anyOf": self.several(depth), "oneOf": self.several(depth), "allOf": self.several(depth)}
        logic |= {key: self.schema(depth - 1) for key in ("not", "if", "then", "else")}
        logic |= {"default": None, "unevaluatedProperties": self.random.choice([True, False])}
        return {**self.random.choice(bases), **self.some(0.25, **logic)}

    def several(self, depth: int) -> list[Any]:
        return [self.schema(depth - 1) for _ in range(self.random.randint(1, 3))]

    def some(self, chance: float, **keywords: Any) -> dict[str, Any]:
        return {key: value for key, value in keywords.items() if self.random.random() < chance}
