"""The codes of the catalogue and its families, by the layer that finds them."""

from handoffaudit.validation.codes import CATALOGUE, FAMILIES, Code


def by_layer() -> dict[str, list[Code]]:
    layers: dict[str, list[Code]] = {}
    for entry in (*CATALOGUE.values(), *FAMILIES.values()):
        layers.setdefault(entry.layer, []).append(entry)
    return layers
