"""Measures the share of each kind of operation in a LiteRT file's time.

The numbers are from LiteRT's own profiler, which also sees the operations
inside its XNNPACK delegate. The Python package has no function for the
profiler, so that this module calls the C library in the package. It does so in
a process of its own, whose program is this module: a crash would end it, and
neither Keras nor TensorFlow is imported there.
"""

import ctypes
import dataclasses
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import ai_edge_litert

from kdkit.errors import RunError, shortened

TIMEOUT = 600  # seconds
CPU = 1  # LiteRT's number for the accelerator
WRITE = 1  # the lock of a buffer
TYPE_WORDS = 256  # more than LiteRT's description of a tensor has
# The table in which LiteRT sums up the calls of each kind of operation.
HEADING = "Summary by node type"
ROW = re.compile(
    r"^\s*(?P<kind>\S.*?)\s+\d+\s+(?P<mean>\d{1,12}(\.\d{1,12})?)\s+"
    r"[\d.]+%\s+[\d.]+%\s+[\d.]+\s+(?P<calls>\d{1,12})\s*$",
    re.ASCII,
)
DELEGATED = "Delegate/"


@dataclasses.dataclass(frozen=True)
class OpTime:
    """The time of all operations of one kind in one run of a file.

    Args:
        kind: string. LiteRT's name, such as `"SOFTMAX"`, or the delegate's,
            such as `"Softmax (NC, F32)"`.
        delegated: bool. Whether XNNPACK ran it.
        calls: float. Operations in one run.
        milliseconds: float. Their time in one run.
        share: float in [0, 1], of the time of all operations.
    """

    kind: str
    delegated: bool
    calls: float
    milliseconds: float
    share: float


def profile_ops(file, inputs, runs=50, warmup=5, threads=1) -> list[OpTime]:
    """Profiles a LiteRT file in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        named = {}
        for number, (name, tensor) in enumerate(file.tensor_names.items()):
            path = pathlib.Path(folder, f"{number}.bin")
            path.write_bytes(inputs[name].tobytes())
            named[tensor] = str(path)
        request = {
            "file": str(pathlib.Path(file.path).resolve()),
            "inputs": named,
            "runs": runs,
            "warmup": warmup,
            "threads": threads,
        }
        try:
            # -P: the folder of this module has names of other packages.
            done = subprocess.run(
                [sys.executable, "-P", __file__, json.dumps(request)],
                capture_output=True,
                text=True,
                timeout=TIMEOUT,
            )
            problem = done.stderr.strip().splitlines()[-1:] or ["no output"]
            summary = done.stdout if done.returncode == 0 else ""
        except (OSError, subprocess.TimeoutExpired) as error:
            summary, problem = "", [str(error)]
    found = parse_summary(summary, runs)
    if not found:
        raise RunError(
            "LiteRT's profiler failed. Expected a table of operations. "
            f"Received: {shortened(problem[0])}. Install another version of "
            "ai-edge-litert; 2.3 was tested."
        )
    return found


def parse_summary(text: str, runs: int) -> list[OpTime]:
    """Reads the table by kind in the text of LiteRT's profiler."""
    totals = {}
    after = text.partition(HEADING)[2]
    for line in after.splitlines()[1:]:
        row = ROW.match(line)
        if row is None:
            if totals:
                break
            continue
        calls = int(row["calls"])
        totals[row["kind"]] = (calls, calls * float(row["mean"]))
    whole = sum(time for _, time in totals.values())
    return sorted(
        (
            OpTime(
                kind.removeprefix(DELEGATED),
                kind.startswith(DELEGATED),
                calls / runs,
                time / runs,
                time / whole if whole else 0.0,
            )
            for kind, (calls, time) in totals.items()
        ),
        key=lambda one: -one.milliseconds,
    )


def _main(file, inputs, runs, warmup, threads):
    """Runs a file under LiteRT's profiler and prints the profiler's text."""
    package = pathlib.Path(ai_edge_litert.__file__).parent
    library = ctypes.CDLL(str(package / "libLiteRt.so"))

    def call(name, *arguments):
        status = getattr(library, f"LiteRt{name}")(*arguments)
        if status:
            raise SystemExit(f"LiteRt{name} failed with status {status}")

    def new(name, *arguments):
        """Calls a function whose last argument receives a pointer."""
        made = ctypes.c_void_p()
        call(name, *arguments, ctypes.byref(made))
        return made

    environment = new("CreateEnvironment", 0, None)
    model = new("CreateModelFromFile", environment, file.encode())
    options = new("CreateOptions")
    call("SetOptionsHardwareAccelerators", options, CPU)
    keep = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda payload: None)
    payloads = {
        b"runtime_options_string": b"enable_profiling = true\n",
        b"xnnpack": b"num_threads = %d\n" % threads,
    }
    texts = []  # alive while LiteRT reads them
    for name, text in payloads.items():
        texts.append(ctypes.create_string_buffer(text))
        payload = ctypes.cast(texts[-1], ctypes.c_void_p)
        opaque = new("CreateOpaqueOptions", name, payload, keep)
        call("AddOpaqueOptions", options, opaque)
    compiled = new("CreateCompiledModel", environment, model, options)
    profiler = new("CompiledModelGetProfiler", compiled)
    if not profiler:
        raise SystemExit("LiteRT made no profiler")
    signature = new("GetModelSignature", model, ctypes.c_size_t(0))
    graph = new("GetSignatureSubgraph", signature)

    def buffers(side):
        count = ctypes.c_size_t()
        call(f"GetNumSubgraph{side}s", graph, ctypes.byref(count))
        made = {}
        for number in map(ctypes.c_size_t, range(count.value)):
            tensor = new(f"GetSubgraph{side}", graph, number)
            kind = (ctypes.c_int32 * TYPE_WORDS)()
            call("GetRankedTensorType", tensor, kind)
            # The type of the elements, the rank in 7 bits, and the shape.
            for axis in range(2, 2 + (kind[1] & 0x7F)):
                kind[axis] = abs(kind[axis])  # -1, any number of rows: one
            needs = new(
                f"GetCompiledModel{side}BufferRequirements",
                compiled,
                ctypes.c_size_t(0),
                number,
            )
            name = ctypes.c_char_p()
            call("GetTensorName", tensor, ctypes.byref(name))
            made[name.value.decode()] = new(
                "CreateManagedTensorBufferFromRequirements",
                environment,
                kind,
                needs,
            )
        return made

    given, answers = buffers("Input"), buffers("Output")
    for name, path in inputs.items():
        content = pathlib.Path(path).read_bytes()
        size = ctypes.c_size_t()
        call("GetTensorBufferPackedSize", given[name], ctypes.byref(size))
        if size.value != len(content):
            raise SystemExit(f"{name} has {size.value} bytes in the file")
        place = ctypes.c_void_p()
        call("LockTensorBuffer", given[name], ctypes.byref(place), WRITE)
        ctypes.memmove(place, content, len(content))
        call("UnlockTensorBuffer", given[name])
    sides = []
    for side in (given, answers):
        array = (ctypes.c_void_p * len(side))(*side.values())
        sides += [ctypes.c_size_t(len(side)), array]

    def run():
        call("RunCompiledModel", compiled, ctypes.c_size_t(0), *sides)

    for _ in range(warmup):
        run()
    call("ResetProfiler", profiler)
    call("StartProfiler", profiler)
    for _ in range(runs):
        run()
    call("StopProfiler", profiler)
    summary = new("GetProfileSummary", profiler, compiled)
    sys.stdout.write(ctypes.string_at(summary).decode())


if __name__ == "__main__":
    _main(**json.loads(sys.argv[1]))
