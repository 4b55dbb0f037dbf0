"""How a file of broken stores gets a test class for each of them."""

from __future__ import annotations

from typing import Any


def enrol(module: dict[str, Any], contract: type, stores: type, but: tuple[type, ...] = ()) -> None:
    """Put the contract on each store of a file into the file's names, as `Test` and its name.

    module    the file's globals()
    contract  makes the store of its `store_class`
    stores    what they all are; where it is of another file, it gets no class
    but       what broken stores are made of
    """
    here = module["__name__"]
    kinds = [kind for kind in module.values() if isinstance(kind, type)]
    own = [kind for kind in kinds if issubclass(kind, stores) and kind.__module__ == here]
    for store in own:
        if store not in but:
            name = f"Test{store.__name__}"
            module[name] = type(name, (contract,), {"store_class": store, "__module__": here})
