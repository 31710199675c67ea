"""The command line, through click's runner and as a process."""

import json
import subprocess
import sys

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper

import weft
from tests.weft.registered import forgotten
from weft.app.cli import cli

RNG = np.random.default_rng(0)
WEIGHT = RNG.standard_normal((3, 12)).astype(np.float32)


def weft_command(*arguments):
    result = CliRunner().invoke(cli, [str(a) for a in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def json_of(*arguments):
    return json.loads(weft_command(*arguments, "--json").stdout)


def process(*arguments, cwd=None, module="weft"):
    command = [sys.executable, "-m", module, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=cwd)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """linear.onnx: scores[n, 12] = x[n, 3] · W, open; fixed.onnx: the same for n = 1; rows.onnx:
    the first of x[n, 3], as many as data say."""
    folder = tmp_path_factory.mktemp("models")
    for name, rows in (("linear", "n"), ("fixed", 1)):
        graph = helper.make_graph(
            [helper.make_node("MatMul", ["x", "w"], ["scores"])],
            name,
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, (rows, 3))],
            [helper.make_tensor_value_info("scores", TensorProto.FLOAT, (rows, 12))],
            [onnx.numpy_helper.from_array(WEIGHT, "w")],
        )
        opset = [helper.make_opsetid("", 17)]
        onnx.save(
            helper.make_model(graph, opset_imports=opset, ir_version=9), folder / f"{name}.onnx"
        )
    graph = helper.make_graph(
        [helper.make_node("Slice", ["x", "zero", "k"], ["y"])],
        "rows",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ("n", 3)),
            helper.make_tensor_value_info("k", TensorProto.INT64, (1,)),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(np.int64([0]), "zero")],
    )
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), folder / "rows.onnx")
    return folder


def test_run_reads_and_writes_arrays(models, tmp_path):
    x = RNG.standard_normal((5, 3)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    result = weft_command(
        "run", models / "linear.onnx", "--input", f"x=@{tmp_path / 'x.npy'}",
        "--output", f"scores=@{tmp_path / 'y.npy'}", "--repeat", 2, "--threads", 1,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), x @ WEIGHT, rtol=1e-5, atol=1e-5)
    assert "1 operators → " in result.output and "scores  float32[5, 12]" in result.output
    assert "of 2 runs, 1 thread" in result.output


def test_a_classifier_shows_its_likeliest_classes(models):
    result = weft_command(
        "run", models / "fixed.onnx", "--input", "x=[[1, 0, 0]]", "--json", "--no-peer"
    )
    data = json.loads(result.output)
    scores = np.exp(WEIGHT[0].astype(np.float64))
    expected = scores / scores.sum()
    assert [entry["class"] for entry in data["top"]] == np.argsort(-expected)[:5].tolist()
    found = [entry["probability"] for entry in data["top"]]
    np.testing.assert_allclose(found, np.sort(expected)[::-1][:5], atol=1e-5)
    assert data["latency_ms"]["min"] <= data["latency_ms"]["median"] and data["peer"] is None
    assert data["stats"]["clusters"] == 1 and data["outputs"]["scores"]["shape"] == [1, 12]


def test_random_inputs_follow_the_seed(models):
    runs = [
        json.loads(
            weft_command("run", models / "fixed.onnx", "--seed", s, "--json", "--no-peer").output
        )
        for s in (1, 1, 2)
    ]
    assert runs[0]["outputs"] == runs[1]["outputs"] != runs[2]["outputs"]


def test_one_number_fills_an_input(models):
    data = json_of("run", models / "linear.onnx", "--shape", "x=2,3", "--input", "x=2", "--no-peer")
    summary = data["outputs"]["scores"]
    assert summary["shape"] == [2, 12]
    assert summary["max"] == pytest.approx(float((2 * WEIGHT.sum(axis=0)).max()), rel=1e-5)


def test_onnxruntime_is_beside_where_it_is_installed(models):
    pytest.importorskip("onnxruntime")
    data = json_of("run", models / "fixed.onnx", "--repeat", 3)
    assert data["peer"]["equal"] and data["peer"]["largest_difference"] < 1e-5
    assert data["peer"]["latency_ms"]["runs"] == data["latency_ms"]["runs"] == 3


def test_a_result_unlike_onnxruntimes_is_exit_code_1(models, monkeypatch):
    pytest.importorskip("onnxruntime")
    run = weft.Executable.run

    def wrong(self, given):
        return {name: value + 1 for name, value in run(self, given).items()}

    monkeypatch.setattr(weft.Executable, "run", wrong)
    result = weft_command("run", models / "fixed.onnx", "--repeat", 1)
    assert result.exit_code == 1 and "NOT equal" in result.output


def test_a_range_of_sizes(models, tmp_path):
    data = json_of("run", models / "linear.onnx", "--shape", "x=4..64,?", "--no-peer")
    assert data["outputs"]["scores"]["shape"] == [4, 12]  # the least
    artifact = tmp_path / "open.weft"
    made = weft_command("compile", models / "linear.onnx", "-o", artifact, "--shape", "x=1..64,3")
    assert made.exit_code == 0, made.output
    x = RNG.standard_normal((64, 3)).astype(np.float32)
    np.testing.assert_allclose(weft.load(artifact)(x), x @ WEIGHT, rtol=1e-5, atol=1e-5)
    with pytest.raises(weft.CallError, match="n >= 1"):
        weft.load(artifact)(x[:0])
    for shape in ("x=..4,3", "x=1...4,3", "x=-1,3", "x=4..x,3", "1..4,3"):
        refused = weft_command("run", models / "linear.onnx", "--shape", shape)
        assert refused.exit_code == 64 or "x=1..64" in refused.output


def test_compile_then_run_the_artifact(models, tmp_path):
    artifact = tmp_path / "linear.weft"
    made = weft_command("compile", models / "linear.onnx", "-o", artifact, "--shape", "x=4,3")
    assert made.exit_code == 0 and f"{artifact.stat().st_size:,} bytes" in made.output
    x = RNG.standard_normal((4, 3)).astype(np.float32)
    np.testing.assert_allclose(weft.load(artifact)(x), x @ WEIGHT, rtol=1e-5, atol=1e-5)
    result = weft_command("run", artifact, "--json")
    assert json.loads(result.output)["outputs"]["scores"]["shape"] == [4, 12]
    again = weft_command(
        "compile", models / "linear.onnx", "-o", artifact, "--shape", "x=4,3", "--json"
    )
    assert json.loads(again.output)["bytes"] == artifact.stat().st_size


def test_compile_to_a_library(models, tmp_path):
    library, header = tmp_path / "linear.o", tmp_path / "linear.h"
    made = weft_command("compile", models / "fixed.onnx", "-o", library, "--header", header)
    assert made.exit_code == 0 and f"{library.stat().st_size:,} bytes" in made.output
    assert "int fixed_run(" in header.read_text()
    assert library.read_bytes().startswith(b"\x7fELF")
    options = ("-o", library, "--header", header, "--name", "mine", "--json")
    found = json.loads(weft_command("compile", models / "fixed.onnx", *options).output)
    assert (found["artifact"], found["header"]) == (str(library), str(header))
    assert "int mine_run(" in header.read_text()
    artifact = tmp_path / "again.weft"
    weft_command("compile", models / "fixed.onnx", "-o", artifact)
    weft_command("compile", artifact, "-o", library, "--header", header)
    assert "int again_run(" in header.read_text()


def test_kernels_of_a_gpu_with_a_main(models, tmp_path):
    kernels = tmp_path / "kernels.cu"
    options = ["--shape", "x=4,3", "--target", "sm_90a", "-o", kernels]
    made = weft_command("compile", models / "linear.onnx", *options)
    assert made.output == f"{kernels}: {kernels.stat().st_size:,} bytes\n"
    text = kernels.read_text()
    assert "WEFT_KERNEL(" in text and "int main() {" in text
    assert kernels.with_suffix(".bin").stat().st_size > 0  # its weights


def test_explain(models):
    fixed = models / "fixed.onnx"
    text = weft_command("explain", fixed).output
    for part in ("statements", "dependences", "schedule", "why neighbouring operators"):
        assert part in text
    assert "define" in weft_command("explain", fixed, "--source", "llvm").output
    assert "add= " in weft_command("explain", fixed, "--stage", "scop").output
    assert (
        json.loads(weft_command("explain", fixed, "--json").output)["text"].strip() == text.strip()
    )


KERNELS = """
import weft

@weft.kernel
def scale(A: weft.f64["N"], B: weft.f64["N"]):
    for i in range(N):
        B[i] = 2.0 * A[i]
"""


def test_explain_a_loop_kernel(tmp_path):
    file = tmp_path / "kernels.py"
    file.write_text(KERNELS)
    text = weft_command("explain", f"{file}:scale").output
    assert text.startswith("scale(N)\n") and "S0.strategy: single\n" in text
    assert text == weft_command("explain", file).output
    assert "S0.strategy: single (" in weft_command("explain", file, "--details").output
    plan = json.loads(weft_command("explain", file, "--plan").output)["decisions"]
    assert {"S0.strategy", "S0.vector"} <= {d["name"] for d in plan}
    assert " for N = 1000: " in text
    assert " for N = 7: " in weft_command("explain", file, "--size", "N=7").output
    refused = weft_command("explain", file, "--size", "M=7")
    assert (
        refused.exit_code == 2 and "WEFT-E0609" in refused.output and "sizes: N" in refused.output
    )
    assert weft_command("explain", file, "--size", "N=x").exit_code != 0


@pytest.mark.parametrize(
    ("name", "code", "says"),
    [
        ("kernels.py:other", "WEFT-E0800", "the file has scale, again"),
        ("kernels.py", "WEFT-E0800", "the file has scale, again"),
        ("broken.py:scale", "WEFT-E0800", "broken.py failed to run"),
        ("broken.py:scale", "WEFT-E0800", "broken.py:2"),
        ("broken.py:scale", "WEFT-E0800", "ZeroDivisionError"),
        ("leaves.py", "WEFT-E0800", "SystemExit: 3"),
        ("nowhere.py:scale", "WEFT-E0800", "FileNotFoundError"),
        ("alien.py", "WEFT-E0162", "alien.py:6:5"),
    ],
)
def test_what_is_no_loop_kernel(tmp_path, name, code, says):
    (tmp_path / "kernels.py").write_text(f"{KERNELS}\n{KERNELS.replace('scale', 'again')}")
    (tmp_path / "broken.py").write_text("x = 0\n1 / x\n")
    (tmp_path / "leaves.py").write_text("import sys\nsys.exit(3)\n")
    (tmp_path / "alien.py").write_text(KERNELS.replace("for i in range(N)", "while N"))
    result = weft_command("explain", tmp_path / name)
    assert code in result.output and says in result.output


def test_the_folder_of_a_file_is_importable_while_it_is_loaded(tmp_path):
    """As with ``python FILE.py``, from wherever that is called."""
    (tmp_path / "kern_beside.py").write_text(KERNELS)
    (tmp_path / "uses.py").write_text("from kern_beside import scale\n")
    before = list(sys.path)
    assert weft_command("explain", tmp_path / "uses.py").output.startswith("scale(N)\n")
    assert sys.path == before
    sys.modules.pop("kern_beside")


SEEDS = """
import weft

@weft.seed
def halves(s, machine, choose):
    (x,) = s.scop.statements
    return s.nest(x.name, {"t": f"{x.dims[0]} // 2", "p": f"{x.dims[0]} % 2"})

@weft.seed("other")
def nothing(s, machine, choose):
    return None

def unregistered(s, machine, choose):
    return s.reverse(s.loops[0])
"""


@pytest.mark.parametrize(
    ("given", "priced"),
    [
        (["seeds.py"], ["automatic", "halves"]),
        (["seeds.py:halves"], ["automatic", "halves"]),
        (["seeds.py:unregistered", "seeds.py:halves"], ["automatic", "unregistered", "halves"]),
        (["seeds.py:nothing"], []),
        (["halves", "both.py"], ["automatic", "halves"]),
    ],
)
def test_seeds_come_in_from_a_file_or_by_name(tmp_path, given, priced):
    (tmp_path / "kernels.py").write_text(KERNELS)
    (tmp_path / "seeds.py").write_text(SEEDS)
    (tmp_path / "both.py").write_text(KERNELS + SEEDS)
    model = tmp_path / ("both.py" if "both.py" in given else "kernels.py")
    named = [x if x == "halves" else tmp_path / x for x in given if x != "both.py"]
    options = [part for name in named for part in ("--seeds", name)]
    with forgotten():
        text = weft_command("explain", f"{model}:scale", "--plan", *options).output
        plan = weft.Plan.read(text)
        found = [[o.value for o in d.options] for d in plan.decisions if d.name == "scale.seed"]
        assert found == ([priced] if priced else [])
        output = tmp_path / "scale.weft"
        wanted = tmp_path / "plan.json"
        wanted.write_text(json.dumps({"scale.seed": priced[-1]} if priced else {}))
        weft_command("compile", f"{model}:scale", "-o", output, "--plan", wanted, *options)
    steps = weft.load(output).explain()
    assert ('nest("S0", {"t": "i // 2", "p": "i % 2"})' in steps) == bool(priced)


@pytest.mark.parametrize(
    ("given", "code", "says"),
    [
        ("kernels.py", "WEFT-E0810", "the file registers none"),
        ("seeds.py:scale", "WEFT-E0810", "the file registers halves, other"),
        ("nowhere.py", "WEFT-E0800", "failed to run"),
        ("hlaves", "WEFT-E0008", "there is no seed 'hlaves'"),
    ],
)
def test_what_is_no_seed(tmp_path, given, code, says):
    (tmp_path / "kernels.py").write_text(KERNELS)
    (tmp_path / "seeds.py").write_text(SEEDS)
    with forgotten():
        path = tmp_path / given if ".py" in given else given
        result = weft_command("explain", tmp_path / "kernels.py", "--seeds", path)
    assert code in result.output and says in result.output


def test_seeds_are_for_processors_and_programs_that_are_compiled(tmp_path, models):
    weft_command("compile", models / "fixed.onnx", "-o", tmp_path / "fixed.weft")
    assert "E0802" in weft_command("run", tmp_path / "fixed.weft", "--seeds", "any").output
    for command in ("run", "compile"):
        found = weft_command(command, models / "fixed.onnx", "--target", "vta", "--seeds", "any")
        assert "--seeds are schedules for processors" in f"{found.output}{found.exception}"


def test_a_path_is_no_kernel_to_compile(tmp_path):
    file = tmp_path / "kernels.py"
    file.write_text(KERNELS)
    with pytest.raises(weft.ModelError, match="weft explain FILE"):
        weft.compile(file)


def test_shapes_have_no_meaning_for_loop_kernels(tmp_path):
    file = tmp_path / "kernels.py"
    file.write_text(KERNELS)
    assert "WEFT-E0802" in weft_command("explain", file, "--shape", "A=3").output


def test_cache_info_and_clear(models, tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "cache"))
    weft_command("run", models / "fixed.onnx", "--no-peer", "--repeat", 1)
    info = json_of("cache", "info")
    assert info["folder"] == str(tmp_path / "cache") and info["entries"] >= 1 and info["bytes"] > 0
    assert "from the cache" in weft_command("run", models / "fixed.onnx", "--no-peer").output
    assert json_of("cache", "clear")["freed"] == info["bytes"]
    assert json_of("cache", "info")["entries"] == 0
    monkeypatch.setenv("WEFT_CACHE_DIR", "off")
    assert weft_command("cache", "info").output == "off: 0 programs, 0 bytes\n"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["run", "nosuch"], "E0800", "resnet18"),
        (["run", "MODEL", "--input", "q=1"], "E0801", "one of x"),
        (["run", "MODEL", "--input", "x"], "E0801", "NAME=VALUE"),
        (["run", "MODEL", "--input", "x=one"], "E0801", "no number"),
        (["run", "ARTIFACT", "--shape", "x=1,3"], "E0802", "--shape"),
        (["run", "MODEL", "--input", "x=@none.npy"], "E0803", "none.npy"),
        (["run", "MODEL", "--input", "x=[[1, 2]]"], "E0605", "float32[1, 3]"),
        (["run", "MODEL", "--output", "q=@q.npy"], "E0804", "one of scores"),
        (["run", "MODEL", "--output", "scores=@/no/such/y.npy"], "E0805", "/no/such/y.npy"),
        (["run", "MODEL", "--shape", "x=2,3"], "E0013", "size 1 in dimension 0"),
        (["run", "MODEL", "--shape", "x=1..2,3"], "E0013", "size 1 in dimension 0"),
        (["run", "OPEN", "--shape", "x=2..1,3"], "E0013", "a range (least, greatest)"),
        (["run", "BROKEN"], "E0266", "not an ONNX model"),
        (["explain", "KERNEL"], "E0800", "FILE.py:KERNEL"),
        (["compile", "OPEN", "-o", "x.weft"], "E0706", "x: float32[n, 3]"),
        (["compile", "OPEN", "-o", "x.o"], "E0706", "x: float32[n, 3]"),
        (["compile", "MODEL", "--header", "x.h"], "E0807", "-o NAME.o"),
        (["compile", "MODEL", "-o", "x.weft", "--name", "x"], "E0807", "are for libraries"),
        (["compile", "MODEL", "-o", "x.o", "--name", "a b"], "E0711", "a_b, say"),
        (["compile", "MODEL", "-o", "/no/such/x.o"], "E0700", "/no/such/x.o"),
        (["explain", "OPEN"], "E0620", "nothing of"),
        (["explain", "MODEL", "--stage", "nope"], "E0609", "stages:"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("as_json", [False, True])
def test_errors_are_typed_and_without_traceback(models, tmp_path, arguments, code, words, as_json):
    for name in ("broken.onnx", "kernel.py"):
        (tmp_path / name).write_bytes(b"\xff" * 100)
    places = {
        "MODEL": models / "fixed.onnx", "OPEN": models / "rows.onnx",
        "BROKEN": tmp_path / "broken.onnx", "ARTIFACT": tmp_path / "fixed.weft",
        "KERNEL": tmp_path / "kernel.py",
    }  # fmt: skip
    if "ARTIFACT" in arguments:
        weft.compile(models / "fixed.onnx").save(places["ARTIFACT"])
    result = weft_command(*(places.get(a, a) for a in arguments), *["--json"] * as_json)
    assert result.exit_code == 2 and "Traceback" not in result.output
    if as_json:
        error = json.loads(result.stdout)["error"]
        assert error["code"] == f"WEFT-{code}" and words in " ".join(error.values())
    else:
        assert f"error: WEFT-{code}: " in result.stderr and words in result.stderr


def test_the_module_of_the_commands_as_a_process():
    """What stands below the commands is defined when one runs."""
    run = process("targets", module="weft.app.cli")
    assert run.returncode == 0 and run.stdout.startswith("target "), run.stderr


@pytest.mark.long
def test_as_a_process_with_its_exit_codes(models, tmp_path):
    """Also: quiet on standard error, no bars, no colours, where nobody is at a terminal."""
    fine = process("run", models / "fixed.onnx", "--no-peer", "--repeat", 1, cwd=tmp_path)
    assert fine.returncode == 0 and fine.stderr == "" and "\x1b" not in fine.stdout
    assert process("--version").stdout.split()[-1] == weft.__version__
    failed = process("run", "nosuch", "--json")
    assert failed.returncode == 2 and json.loads(failed.stdout)["error"]["code"] == "WEFT-E0800"
    misused = process("run", "x", "--repeat", "none", "--json")
    assert misused.returncode == 64 and json.loads(misused.stdout)["error"]["code"] == "WEFT-E0806"
    misused = process("run", models / "fixed.onnx", "--shape", "x=a")
    assert misused.returncode == 64 and "Usage:" in misused.stderr
