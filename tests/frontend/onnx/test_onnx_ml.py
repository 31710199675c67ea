"""ai.onnx.ml: ONNX's own node tests, and onnx.reference on models of our own."""

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from tests.frontend.onnx.run_onnx import case_names, check_case, one_node
from weft.ir.errors import ExecutionError, WeftError

ML = "ai.onnx.ml"
RNG = np.random.default_rng(0)
X = RNG.standard_normal((11, 4)).astype(np.float32)


@pytest.mark.parametrize("name", case_names("ArrayFeatureExtractor", "Binarizer", "TreeEnsemble"))
def test_onnx_node_suite(name):
    check_case(name)


def reference(op_type, inputs, opset, n_outputs, attributes):
    names, outputs = [f"x{n}" for n in range(len(inputs))], [f"y{n}" for n in range(n_outputs)]
    graph = helper.make_graph(
        [helper.make_node(op_type, names, outputs, domain=ML, **attributes)],
        "one",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in names],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs],
    )
    opsets = [helper.make_opsetid(ML, opset), helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets)
    return ReferenceEvaluator(model).run(None, dict(zip(names, inputs, strict=True)))


def check(op_type, *inputs, opset=3, n_outputs=1, **attributes):
    expected = reference(op_type, inputs, opset, n_outputs, attributes)
    results = one_node(
        op_type, list(inputs), opset=opset, domain=ML, n_outputs=n_outputs, **attributes
    )
    for result, wanted in zip(results, expected, strict=True):
        assert result.shape == wanted.shape
        np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-5)


# ---- features ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
def test_scaler_gives_floats(dtype):
    x = (X * 9).astype(dtype)
    for offset, scale in (
        ([1.0], [2.0]),
        ([1.0, 2, 3, 4], [0.5, 1, 2, 4]),
        ([1.0, 2, 3, 4], [3.0]),
    ):
        (y,) = one_node("Scaler", [x], opset=1, domain=ML, offset=offset, scale=scale)
        assert y.dtype == np.float32
        np.testing.assert_allclose(y, (x - np.array(offset)) * np.array(scale), rtol=1e-6)


@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
def test_normalizer(norm):
    check("Normalizer", X, norm=norm)
    check("Normalizer", np.zeros((2, 3), np.float32), norm=norm)


def test_binarizer_of_integers_compares_with_the_exact_threshold():
    x = np.array([0, 1, 2], np.int64)
    (y,) = one_node("Binarizer", [x], opset=1, domain=ML, threshold=0.5)
    np.testing.assert_array_equal(y, [0, 1, 1])
    assert y.dtype == np.int64


def test_feature_vectorizer_cuts_and_pads():
    columns = [X[:, 0], X, X[:, :2].astype(np.float64)]
    (y,) = one_node("FeatureVectorizer", columns, opset=1, domain=ML, inputdimensions=[1, 3, 5])
    expected = np.concatenate([X[:, :1], X[:, :3], X[:, :2], np.zeros((11, 3))], 1)
    np.testing.assert_array_equal(y, expected.astype(np.float32))


def test_array_feature_extractor_of_a_vector():
    check("ArrayFeatureExtractor", X[0], np.array([[3, 0, 0]]))
    check("ArrayFeatureExtractor", X, np.array([1, 1]))


def test_imputer():
    x = X.copy()
    x[2, 1] = x[5, 3] = np.nan
    for values in ([7.0], [1.0, 2, 3, 4]):
        check("Imputer", x, imputed_value_floats=values, replaced_value_float=float("nan"))
    whole = RNG.integers(0, 3, (5, 2))
    check("Imputer", whole, imputed_value_int64s=[9], replaced_value_int64=1)


# ---- tables --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values", [{"values_floats": [0.5, 1.5, 2.5]}, {"values_int64s": [7, 8, 9]}]
)
def test_label_encoder(values):
    x = np.array([[3, 1, 2], [5, 5, -1]])
    check("LabelEncoder", x, keys_int64s=[1, 3, 5], default_float=-2.0, default_int64=-3, **values)


def test_label_encoder_finds_nan():
    x = np.array([np.nan, 1.0], np.float32)
    (y,) = one_node(
        "LabelEncoder", [x], opset=4, domain=ML, keys_floats=[np.nan], values_int64s=[3]
    )
    np.testing.assert_array_equal(y, [3, -1])


@pytest.mark.parametrize("shape", [(5,), (2, 3)])
def test_one_hot_encoder(shape):
    check("OneHotEncoder", RNG.integers(0, 5, shape), cats_int64s=[1, 0, 3], zeros=1)


def test_a_category_that_is_not_there_fails_where_zeros_are_not_wanted():
    x = np.array([0, 2])
    encoder = {"opset": 1, "domain": ML, "cats_int64s": [0, 2], "zeros": 0}
    np.testing.assert_array_equal(one_node("OneHotEncoder", [x], **encoder)[0], np.eye(2))
    with pytest.raises(ExecutionError):
        one_node("OneHotEncoder", [x + 1], **encoder)


# ---- linear models and support vectors -----------------------------------------------------------

TRANSFORMS = ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"]


@pytest.mark.parametrize("targets", [1, 3])
def test_linear_regressor(targets):
    weights = RNG.standard_normal(4 * targets).tolist()
    intercepts = RNG.standard_normal(targets).tolist()
    check("LinearRegressor", X, coefficients=weights, intercepts=intercepts, targets=targets)


@pytest.mark.parametrize(
    "rows, labels, kind",
    [
        (1, [6], "NONE"),
        *((3, [5, 7, 9], kind) for kind in TRANSFORMS),
        *((1, [4, 2], kind) for kind in TRANSFORMS),
    ],
)
def test_linear_classifier(rows, labels, kind):
    attributes = {
        "coefficients": RNG.standard_normal(4 * rows).tolist(),
        "intercepts": RNG.standard_normal(rows).tolist(),
        "classlabels_ints": labels,
        "post_transform": kind,
    }
    check("LinearClassifier", X, n_outputs=2, **attributes)


@pytest.mark.parametrize("kind", ["LOGISTIC", "SOFTMAX"])
def test_labels_are_those_of_the_scores_before_they_saturate(kind):
    x = np.array([[1.0]], np.float32)
    given = {
        "classlabels_ints": [5, 7, 9],
        "post_transform": kind,
        "coefficients": [-1e3, 300, 600],
    }
    labels, _ = one_node("LinearClassifier", [x], opset=3, domain=ML, n_outputs=2, **given)
    assert labels.tolist() == [9]
    leaf = {"nodes_treeids": [0], "nodes_nodeids": [0], "nodes_modes": ["LEAF"]}
    leaf |= {"nodes_featureids": [0], "nodes_values": [0.0]}
    leaf |= {"nodes_truenodeids": [0], "nodes_falsenodeids": [0]}
    labels, _ = one_node(
        "TreeEnsembleClassifier", [x], opset=3, domain=ML, n_outputs=2, post_transform=kind,
        class_treeids=[0] * 3, class_nodeids=[0] * 3, class_ids=[0, 1, 2],
        class_weights=[-1e3, 300.0, 600.0], classlabels_int64s=[5, 7, 9], **leaf,
    )  # fmt: skip
    assert labels.tolist() == [9]


def test_small_probabilities_keep_their_digits():
    x = np.array([[-80.0], [-16.0], [0.0], [30.0]], np.float32)
    (y,) = one_node(
        "LinearRegressor", [x], opset=1, domain=ML, coefficients=[1.0], post_transform="LOGISTIC"
    )
    np.testing.assert_allclose(y, 1 / (1 + np.exp(-x.astype(float))), rtol=1e-6)


def test_zero_is_no_class_after_softmax_zero():
    forest = {
        "nodes_treeids": [0], "nodes_nodeids": [0], "nodes_modes": ["LEAF"],
        "nodes_featureids": [0], "nodes_values": [0.0],
        "nodes_truenodeids": [0], "nodes_falsenodeids": [0],
        "class_treeids": [0, 0], "class_nodeids": [0, 0], "class_ids": [0, 1],
        "class_weights": [-3.0, -2.0], "classlabels_int64s": [5, 7, 9],
    }  # fmt: skip
    for kind in ("SOFTMAX_ZERO", "SOFTMAX"):
        check("TreeEnsembleClassifier", X[:1], n_outputs=2, post_transform=kind, **forest)


def test_probit_is_the_inverse_of_the_normal_distribution():
    probability = np.array([[0.01], [0.3], [0.5], [0.9], [0.999]], np.float32)
    (y,) = one_node(
        "LinearRegressor", [probability], opset=1, domain=ML, coefficients=[1.0],
        post_transform="PROBIT",
    )  # fmt: skip
    expected = [[-2.3263], [-0.5244], [0.0], [1.2816], [3.0902]]
    np.testing.assert_allclose(y, expected, rtol=0.01, atol=1e-3)


@pytest.mark.parametrize("kind", ["LINEAR", "POLY", "RBF", "SIGMOID"])
@pytest.mark.parametrize("one_class", [0, 1])
def test_svm_regressor(kind, one_class):
    check(
        "SVMRegressor", X, kernel_type=kind, kernel_params=[0.4, 0.3, 3.0], n_supports=5,
        coefficients=RNG.standard_normal(5).tolist(), rho=[0.2], one_class=one_class,
        support_vectors=RNG.standard_normal(20).tolist(), post_transform="NONE",
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["LINEAR", "RBF"])
@pytest.mark.parametrize("per_class", [[2, 3, 1], [1, 4], [1, 1, 2, 1]])
@pytest.mark.parametrize("transform", TRANSFORMS[:3])
def test_svm_classifier(kind, per_class, transform):
    classes, count = len(per_class), sum(per_class)
    pairs = classes * (classes - 1) // 2
    check(
        "SVMClassifier", X, n_outputs=2, kernel_type=kind, kernel_params=[0.4, 0.3, 3.0],
        coefficients=RNG.standard_normal((classes - 1) * count).tolist(),
        rho=RNG.standard_normal(pairs).tolist(), vectors_per_class=per_class,
        support_vectors=RNG.standard_normal(count * 4).tolist(), post_transform=transform,
        classlabels_ints=list(range(10, 10 + classes)),
    )  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("kind", TRANSFORMS[:3])
def test_svm_classifier_with_probabilities(kind):
    check(
        "SVMClassifier", X, n_outputs=2, kernel_type="RBF", kernel_params=[0.4, 0.0, 0.0],
        coefficients=RNG.standard_normal(5).tolist(), rho=[0.1], vectors_per_class=[2, 3],
        support_vectors=RNG.standard_normal(20).tolist(), post_transform=kind,
        prob_a=[-1.5], prob_b=[0.2], classlabels_ints=[4, 9],
    )  # fmt: skip


@pytest.mark.parametrize("classes", [2, 3])
def test_linear_svm_classifier(classes):
    check(
        "SVMClassifier", X, n_outputs=2, kernel_type="LINEAR", rho=[0.1], post_transform="NONE",
        coefficients=RNG.standard_normal(classes * 4).tolist(),
        classlabels_ints=list(range(10, 10 + classes)),
    )  # fmt: skip


# ---- trees ---------------------------------------------------------------------------------------


def random_forest(trees, depth, targets, prefix, modes):
    """Attributes of full trees (node n has children 2n+1 and 2n+2), two weights a leaf."""
    nodes, leaves = 2**depth - 1, 2**depth
    columns = {name: [] for name in (
        "nodes_treeids", "nodes_nodeids", "nodes_featureids", "nodes_modes", "nodes_values",
        "nodes_truenodeids", "nodes_falsenodeids", "nodes_missing_value_tracks_true",
        f"{prefix}_treeids", f"{prefix}_nodeids", f"{prefix}_ids", f"{prefix}_weights",
    )}  # fmt: skip
    for tree in range(trees):
        for n in range(nodes + leaves):
            inner = n < nodes
            row = (
                tree, n, int(RNG.integers(4)), str(RNG.choice(modes)) if inner else "LEAF",
                float(np.round(RNG.standard_normal(), 1)), 2 * n + 1 if inner else 0,
                2 * n + 2 if inner else 0, int(RNG.integers(2)),
            )  # fmt: skip
            for column, value in zip(columns.values(), row, strict=False):
                column.append(value)
            for _ in range(0 if inner else 2):
                row = tree, n, int(RNG.integers(targets)), float(RNG.standard_normal())
                for column, value in zip(list(columns.values())[8:], row, strict=True):
                    column.append(value)
    return columns


MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]


def samples():
    x = np.round(X, 1)
    x[3, :2] = np.nan
    return x


@pytest.mark.parametrize("depth", [0, 1, 4])
@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize("modes", [MODES[:1], MODES])
def test_tree_ensemble_regressor(depth, aggregate, modes):
    forest = random_forest(3, depth, 2, "target", modes)
    check(
        "TreeEnsembleRegressor", samples(), n_targets=2, aggregate_function=aggregate,
        base_values=[0.5, -1.0], post_transform="NONE", **forest,
    )  # fmt: skip


@pytest.mark.parametrize("kind", [*TRANSFORMS, "PROBIT"])
@pytest.mark.parametrize("classes", [2, 3])
def test_tree_ensemble_classifier(classes, kind):
    forest = random_forest(3, 3, classes, "class", MODES)
    if kind == "PROBIT":
        forest["class_weights"] = (RNG.random(len(forest["class_weights"])) / 12).tolist()
    check(
        "TreeEnsembleClassifier", samples(), n_outputs=2, post_transform=kind,
        classlabels_int64s=list(range(5, 5 + classes)), **forest,
    )  # fmt: skip


def test_a_binary_tree_ensemble_classifier_has_one_score_for_two_classes():
    for kind in ("NONE", "LOGISTIC"):
        forest = random_forest(2, 2, 1, "class", MODES[:1])
        check(
            "TreeEnsembleClassifier", samples(), n_outputs=2, post_transform=kind,
            classlabels_int64s=[0, 1], **forest,
        )  # fmt: skip


def test_trees_that_circle_or_leave_the_table_are_refused():
    forest = random_forest(1, 2, 1, "target", MODES)
    bad = [
        ("nodes_truenodeids", 1, "cycle"),
        ("nodes_falsenodeids", 99, "not there"),
        ("nodes_featureids", 4, "feature"),
        ("nodes_modes", "BRANCH_MAYBE", "BRANCH_MAYBE"),
        ("target_ids", 1, "target is not among 1"),
        ("target_nodeids", 77, "not there"),
    ]
    for name, value, message in bad:
        column = list(forest[name])
        column[1] = value
        with pytest.raises(WeftError, match=message):
            one_node(
                "TreeEnsembleRegressor", [X], opset=3, domain=ML, n_targets=1,
                **{**forest, name: column},
            )  # fmt: skip


@pytest.mark.parametrize(
    "op_type, attributes, message",
    [
        ("Scaler", {}, "offset and scale"),
        ("Normalizer", {"norm": "L3"}, "L3"),
        ("LinearRegressor", {"coefficients": [1.0, 2.0]}, "do not fit"),
        (
            "LinearClassifier",
            {"coefficients": [1.0] * 4, "post_transform": "X"},
            "unknown transform",
        ),
        ("SVMRegressor", {"coefficients": [1.0], "n_supports": 2}, "do not fit"),
        ("LabelEncoder", {"keys_floats": [1.0], "values_floats": [1.0, 2.0]}, "1 keys for 2"),
        ("LabelEncoder", {"keys_strings": ["a"], "values_floats": [1.0]}, "strings"),
        ("OneHotEncoder", {}, "no categories"),
        ("Imputer", {}, "is needed"),
        ("TreeEnsembleRegressor", {"n_targets": 1}, "no nodes"),
    ],
)
def test_bad_attributes_are_refused(op_type, attributes, message):
    n_outputs = 2 if op_type == "LinearClassifier" else 1
    with pytest.raises(WeftError, match=message):
        one_node(op_type, [X], opset=3, domain=ML, n_outputs=n_outputs, **attributes)
