"""Arguments that no question takes together are refused, by name, before a table is opened."""

import numpy as np
import pytest

import privmean as pm
from privmean.errors import ArgumentError

NORMAL = pm.SubGaussian(sd=1)
CURVE = {"value": "y", "time": "t", "bins": (0.0, 2.5, 5.0, 10.0)}
ASKED = {
    "pooled": (pm.regress, {"formula": "y ~ x"}),
    "per person": (pm.regress, {"formula": "y ~ x", "effect": "per_person"}),
    "curve": (pm.curve, CURVE),
    "variance": (pm.variance, {"value": "y"}),
}
WRONG = [
    ("pooled", {"effect": "between"}, "effect"),
    ("pooled", {"fixed_effects": True}, "fixed_effects"),
    ("pooled", {"fixed_effects": ""}, "fixed_effects"),
    ("pooled", {"effect": np.array(["pooled", "within"])}, "effect"),
    ("pooled", {"assume": (-1, 1)}, "assume"),
    ("pooled", {"time": "t"}, "time"),
    ("pooled", {"method": pm.PrivateScale()}, "method"),
    ("pooled", {"working": pm.AR1(0.5)}, "working"),
    ("pooled", {"working": pm.Exchangeable(0.5), "effect": "within"}, "working"),
    ("pooled", {"only": ["no"]}, "only"),
    ("pooled", {"only": []}, "only"),
    ("pooled", {"contrasts": {"a": {"no": 1}}}, "contrasts"),
    ("pooled", {"contrasts": {"a": {"x": 0.0}}}, "contrasts"),
    ("pooled", {"weights": 0}, "weights"),
    ("pooled", {"weights": "records"}, "weights"),
    ("pooled", {"scales": {"x": 2.0}}, "scales"),
    ("pooled", {"scales": {"no": (1, 2)}}, "scales"),
    ("pooled", {"bounds": {"x": (2, 1)}}, "bounds"),
    ("pooled", {"bounds": {"x": (1, 2)}, "scales": {"x": (1, 2)}}, "scales"),
    ("pooled", {"effect": "per_person", "only": ["x"]}, "only"),
    ("pooled", {"effect": "per_person", "weights": 4}, "weights"),
    ("per person", {"target": "median"}, "target"),
    ("per person", {"method": pm.PrivateScale(), "assume": (-1, 1)}, "assume"),
    ("per person", {"assume": [(0, 1)]}, "assume"),
    ("per person", {"assume": pm.UnknownScale()}, "assume"),
    ("per person", {"assume": NORMAL, "concentration": NORMAL}, "assume"),
    ("per person", {"assume": NORMAL}, "range"),
    ("per person", {"assume": pm.WorkingErrors(1.0, (1.0, 2.0, 3.0)), "delta": 1e-6}, "between_sd"),
    ("per person", {"magnitudes": 3}, "magnitudes"),
    ("curve", {"bins": (1, 1)}, "bins"),
    ("curve", {"bins": 3}, "bins"),
    ("curve", {"bins": np.array(3.0)}, "bins"),
    ("curve", {"assume": ()}, "bounds"),
    ("curve", {"by": 0, "levels": (0, 1)}, "by"),
    ("curve", {"bins": range(1002)}, "bins"),
    ("curve", {"bounds": (0, 1), "concentration": NORMAL}, "assume"),
    ("curve", {"concentration": NORMAL}, "assume"),
    ("curve", {"method": pm.PrivateScale(target="mean")}, "method"),
    ("curve", {"method": pm.DefaultMean(target="mean")}, "method"),
    ("curve", {"value": None}, "value"),
    ("curve", {"smooth": -1.0}, "smooth"),
    ("curve", {"max_bins": 0}, "max_bins"),
    ("curve", {"by": "arm", "bounds": (0, 4)}, "levels"),
    ("curve", {"by": "arm", "levels": (1, 1), "bounds": (0, 4)}, "levels"),
    ("curve", {"by": "arm", "levels": (1, "a"), "bounds": (0, 4)}, "levels"),
    ("curve", {"levels": (0, 1)}, "levels"),
    ("curve", {"by": "y", "levels": (0, 1)}, "by"),
    ("curve", {"by": "t", "levels": (0, 1)}, "by"),
    ("variance", {"within": (1, 2)}, "within"),
    ("variance", {"method": "moment"}, "method"),
    ("variance", {"center": 3.0}, "center"),
    ("variance", {"clustering": 0.0}, "clustering"),
]


@pytest.mark.parametrize(("asked", "arguments", "name"), WRONG)
def test_arguments_are_checked_before_data(asked, arguments, name):
    ask, known = ASKED[asked]
    with pytest.raises(ArgumentError) as caught:
        ask("no such file.csv", **{"person": "who", "epsilon": 1.0} | known | arguments)
    assert caught.value.argument == name
