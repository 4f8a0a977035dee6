"""The developer's command: sets up a virtual environment from a lock file, then does one job.

    python dev.py demo     check, list, call and serve the sample tools
    python dev.py test     formatter, linter with security rules, types, layers and the everyday tests
    python dev.py conformance    the official conformance suite and the official clients
    python dev.py reliability    hostile input, crashes, kills, floods and outages, in their short form
    python dev.py soak     the long suites
    python dev.py lowest   the lowest version of every dependency, and toolcrib beside other packages
    python dev.py matrix   every supported version of mcp and fastmcp, and servers from PyPI
    python dev.py mutate FILE [TEST ...]    break a source file in small ways, and see that tests notice
    python dev.py bench    measure against mcp and fastmcp, in one run
    python dev.py fleet    three replicas of examples/fleet, PostgreSQL, Redis and a proxy, until Ctrl-C
    python dev.py release  build sdist and wheel into dist/, and test them in an empty environment
    python dev.py docs     build the documentation site into site/
    python dev.py map      rewrite the generated parts of docs/architecture.md
    python dev.py audit    look the locked packages up in the advisory database (needs the network)
    python dev.py lock     resolve the lock files again
    python dev.py fix      let the formatter and the linter rewrite what they can

Knows only the standard library, so that it runs on a machine with Python and a package index.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess  # runs the project's own tools
import sys
import venv
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import takewhile
from pathlib import Path

ROOT = Path(__file__).resolve().parent
DEV_LOCK = ROOT / "requirements" / "dev.lock"
WORKERS = ("-n", "3", "--dist", "loadgroup")
CONFORMANCE = "tests/conformance"
RELIABILITY = "tests/reliability"
RELEASE = "tests/release"
OUTAGES = tuple(f"tests/fleet/test_fleet_{name}.py" for name in ("chaos", "failover", "partitions"))
"""They start many servers, and measure how fast replicas notice what is gone."""
APART = (CONFORMANCE, RELIABILITY, RELEASE, *OUTAGES)
"""Tests with a command of their own."""
PATIENT = ("-o", "faulthandler_timeout=900")
"""For suites with tests that take longer than pyproject.toml allows."""
COSTS = ("tests/reliability/test_request_cost.py", "tests/reliability/test_schema_bombs.py")
"""They measure CPU time, so nothing else runs beside them."""
BENCH_LOCK = ROOT / "requirements" / "bench.lock"
RUN_LOCK = ROOT / "requirements" / "run.lock"
"""Only the packages that toolcrib itself needs."""
LOWEST_LOCK = ROOT / "requirements" / "lowest.lock"
"""The lowest version of each, and what the tests of the command line need."""


def environment(folder: str, lock: Path) -> Path:
    """The folder of a virtual environment's programs, installed from `lock` when that changed."""
    home = ROOT / folder
    programs = home / ("Scripts" if os.name == "nt" else "bin")
    stamp = home / ".lock-digest"
    digest = hashlib.sha256(lock.read_bytes() + sys.version.encode() + str(ROOT).encode()).hexdigest()
    if stamp.exists() and stamp.read_text() == digest:
        return programs
    print(f"setting up {folder} from {lock.relative_to(ROOT)} ...", file=sys.stderr, flush=True)
    if lock == RUN_LOCK:
        install_to_run(home, programs)
    else:
        install_to_develop(home, programs, lock)
    stamp.write_text(digest)
    return programs


def install_to_run(home: Path, programs: Path) -> None:
    """Install what toolcrib needs with the pip of this Python, and link the sources without building them.

    A pip of its own, compiling every module and an editable install would take as long as all the rest.
    """
    python = str(programs / "python")
    options = ["--quiet", "--disable-pip-version-check", "--no-compile", "--no-deps", "--require-hashes"]
    install = ["install", *options, "--requirement", str(RUN_LOCK)]
    venv.create(home, clear=True)
    if not succeeds([sys.executable, "-m", "pip", "--python", python, *install]):
        print("trying again with a pip of its own ...", file=sys.stderr, flush=True)
        venv.create(home, with_pip=True, clear=True)
        run([python, "-m", "pip", *install])
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = subprocess.run([python, "-c", where], capture_output=True, text=True, check=True)  # noqa: S603
    Path(packages.stdout.strip(), "toolcrib.pth").write_text(f"{ROOT / 'src'}\n")
    if os.name == "nt":
        (programs / "toolcrib.cmd").write_text('@"%~dp0python" -m toolcrib %*\n')
        return
    launcher = programs / "toolcrib"
    launcher.write_text(f'#!/bin/sh\nexec {shlex.quote(python)} -m toolcrib "$@"\n')
    launcher.chmod(0o755)


def install_to_develop(home: Path, programs: Path, lock: Path) -> None:
    venv.create(home, with_pip=True, clear=True)
    pip = [str(programs / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    # The pip of Python 3.11 ignores the pin of a package that another one requires with an extra.
    (home / "pip.lock").write_text(locked_pip())
    run([*pip, "--require-hashes", "--requirement", str(home / "pip.lock")])
    run([*pip, "--require-hashes", "--requirement", str(lock)])
    run([*pip, "--no-deps", "--no-build-isolation", "--editable", str(ROOT)])


def locked_pip() -> str:
    """Return the lines of the lock file that pin pip itself."""
    lines = DEV_LOCK.read_text().splitlines(keepends=True)
    start = next(number for number, line in enumerate(lines) if line.startswith("pip=="))
    return "".join([lines[start], *takewhile(lambda line: line.startswith(" "), lines[start + 1 :])])


def run(command: list[str], **extra: str) -> None:
    """Run one command in the project's folder; a failing one ends this program with its exit code."""
    if code := exit_code(command, **extra):
        print(f"failed ({code}): {' '.join(command)}", file=sys.stderr)
        raise SystemExit(code)


def succeeds(command: list[str]) -> bool:
    return exit_code(command) == 0


def exit_code(command: list[str], **extra: str) -> int:
    # Bytecode is kept whatever the environment says: tests start hundreds of processes.
    environ = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", **extra}
    return subprocess.run(command, cwd=ROOT, env=environ, check=False).returncode  # noqa: S603


def demo() -> None:
    bin_ = environment(".venv-run", RUN_LOCK)
    crib = [str(bin_ / "python"), "-m", "toolcrib"]
    call = ["call", "math_add", "a=10", "b=5"]
    for arguments in (["check"], ["list"], ["show", "math_add"], call):
        show_and_run(crib, [*arguments, "--samples"])
    print("\n$ toolcrib serve --samples --port 0 --json", flush=True)
    serve = [*crib, "serve", "--samples", "--port", "0", "--json"]
    with subprocess.Popen(serve, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:  # noqa: S603
        try:
            line = server.stdout.readline() if server.stdout else ""
            print(line, end="", flush=True)
            if not line:
                raise SystemExit("the server did not start")
            show_and_run(crib, [*call, "-t", json.loads(line)["address"]])
        finally:
            server.terminate()
    toolcrib = (bin_ / "toolcrib").relative_to(ROOT)
    print(f"\nIt works. Next: {toolcrib} serve, or {toolcrib} check yours.py", flush=True)


def show_and_run(crib: list[str], arguments: list[str]) -> None:
    print(f"\n$ toolcrib {' '.join(arguments)}", flush=True)
    run([*crib, *arguments])


def test(bin_: Path, *arguments: str) -> None:
    run_side_by_side(
        [str(bin_ / "python"), "-m", "tests.support.system.node"],  # the official suite and clients
        [str(bin_ / "ruff"), "format", "--check", "--quiet", "."],
        [str(bin_ / "ruff"), "check", "--quiet", "."],
        [str(bin_ / "lint-imports"), "--no-cache"],
    )
    pytest = [str(bin_ / "pytest"), *WORKERS, *coverage(), *left_out(arguments), *arguments]
    # Tests are collected by one process; the types are checked by another processor in the meantime.
    run_side_by_side(pytest, [str(bin_ / "mypy")], **memory_files())


def left_out(arguments: tuple[str, ...]) -> list[str]:
    """Return the options that leave out the tests with commands of their own, unless tests are named."""
    words = [argument.partition("::")[0] for argument in arguments if not argument.startswith("-")]
    is_chosen = any((ROOT / word).exists() for word in words)  # or the value of an option, as in `-k scan`
    return [] if is_chosen else [f"--ignore={folder}" for folder in APART]


def memory_files() -> dict[str, str]:
    """Return where temporary files cost no disk access: most tests write some."""
    memory = Path("/dev/shm")  # noqa: S108
    return {"TMPDIR": str(memory)} if os.access(memory, os.W_OK) else {}


def conformance(bin_: Path, *arguments: str) -> None:
    run([str(bin_ / "pytest"), *PATIENT, *WORKERS, CONFORMANCE, *arguments])


def reliability(bin_: Path, *arguments: str) -> None:
    pytest = [str(bin_ / "pytest"), *PATIENT]
    run([*pytest, *COSTS, *arguments])
    run([*pytest, *OUTAGES, *arguments])
    apart = [f"--ignore={path}" for path in COSTS]
    run([*pytest, *WORKERS, RELIABILITY, *apart, *arguments])


def run_side_by_side(*commands: list[str], **extra: str) -> None:
    """Run commands at once; the first one that failed ends this program with its exit code."""
    with ThreadPoolExecutor(len(commands)) as pool:
        codes = list(pool.map(lambda command: exit_code(command, **extra), commands))
    for command, code in zip(commands, codes, strict=True):
        if code:
            print(f"failed ({code}): {' '.join(command)}", file=sys.stderr)
    if any(codes):
        raise SystemExit(next(filter(None, codes)))


def coverage() -> list[str]:
    """Coverage is measured where its tool is told to, in one process."""
    return (
        ["--workers", "1", "--cov", "--cov-report=term:skip-covered"]
        if os.environ.get("TOOLCRIB_COVERAGE")
        else []
    )


def soak(bin_: Path, *arguments: str) -> None:
    """Every property test with 5,000 examples, and every long reliability test, one at a time."""
    pytest = [str(bin_ / "pytest"), *PATIENT]
    long = {"TOOLCRIB_PROPERTY": "long", "TOOLCRIB_SOAK": "1", "TOOLCRIB_REQUIRE": "all"}
    run([*pytest, "-n", "2", "tests/property", *arguments], **long)
    run(
        [*pytest, "tests/reliability", "tests/wire", "tests/market", "tests/unit/catalog", *arguments], **long
    )
    run([*pytest, "-m", "long", "tests/unit", "tests/conformance", *arguments], **long)
    run([*pytest, "-o", "faulthandler_timeout=7200", "tests/fleet", *arguments], **long)
    matrix(bin_, *arguments)
    release(bin_)


def matrix(bin_: Path, *arguments: str) -> None:
    """Sample servers and servers from PyPI, in environments with one version of a library each."""
    long = {"TOOLCRIB_SOAK": "1", "TOOLCRIB_MATRIX": "1", "TOOLCRIB_REQUIRE": "all"}
    run([str(bin_ / "pytest"), *PATIENT, "-vv", "-n", "2", "tests/matrix", *arguments], **long)


def lowest(bin_: Path, *arguments: str) -> None:
    """The tests of the command line with the lowest versions, and its commands beside other packages."""
    long = {"TOOLCRIB_SOAK": "1", "TOOLCRIB_REQUIRE": "all"}
    run([str(bin_ / "pytest"), *PATIENT, "-n", "2", "tests/matrix/test_dependencies.py", *arguments], **long)


def release(bin_: Path, *arguments: str) -> None:
    """Build what would be uploaded, and test just that; docs/releasing.md is the checklist."""
    version = declared_version()
    if problem := tag_problem(version, tags_of_this_commit(), (ROOT / "CHANGELOG.md").read_text()):
        raise SystemExit(f"error: {problem}")
    for old in (ROOT / "dist").glob("toolcrib-*"):
        old.unlink()
    python = str(bin_ / "python")
    # The wheel is built from the sdist, with the locked hatchling of this environment.
    run([python, "-m", "build", "--no-isolation", "--outdir", "dist"])
    built = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "dist").glob(f"toolcrib-{version}*"))
    run([python, "-m", "twine", "check", "--strict", *built])
    run([python, "-m", "pytest", *PATIENT, RELEASE, *arguments], TOOLCRIB_SOAK="1", TOOLCRIB_REQUIRE="all")
    print(f"ready: {' and '.join(built)}")


def declared_version() -> str:
    """Return `__version__`, which the build reads, too, without an import."""
    match = re.search(
        r'^__version__ = "(.+)"$', (ROOT / "src/toolcrib/__init__.py").read_text(), re.MULTILINE
    )
    if match is None:
        raise SystemExit("error: src/toolcrib/__init__.py has no __version__")
    return match[1]


def tags_of_this_commit() -> list[str]:
    """Return the tags of the checked-out commit; none outside of a git repository."""
    if not (ROOT / ".git").exists() or not (git := shutil.which("git")):
        return []
    command = [git, "tag", "--points-at", "HEAD"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()  # noqa: S603


def tag_problem(version: str, tags: list[str], changelog: str) -> str | None:
    """Return what is wrong with a commit that is tagged for a release, if it is."""
    releases = [tag for tag in tags if re.match(r"v\d", tag)]
    if not releases:
        return None
    if releases != [f"v{version}"]:
        return f"the commit is tagged {', '.join(releases)}, but __version__ is {version}: tag it v{version}"
    if f"\n## [{version}]" not in changelog:
        return f"CHANGELOG.md has no section for {version}: add the heading '## [{version}] - YYYY-MM-DD'"
    return None


def mutate(bin_: Path, *arguments: str) -> None:
    """Mutate one file in a copy of the project; without TEST, the unit tests named after it judge.

    `mutmut` reads pyproject.toml only, so the copy has one of its own. It runs the tests repeatedly
    in one process, so each must pass twice.
    """
    if not arguments or not (ROOT / arguments[0]).is_file():
        raise SystemExit("usage: python dev.py mutate src/toolcrib/PACKAGE/FILE.py [TEST ...]")
    source, *tests = arguments
    folder = ROOT / "tests/unit" / Path(source).parent.relative_to("src/toolcrib")
    named = sorted(folder.glob(f"test_{Path(source).stem}*.py")) or [folder]
    tests = tests or [str(path.relative_to(ROOT)) for path in named]
    copy = ROOT / ".mutation"
    shutil.rmtree(copy, ignore_errors=True)
    ignored = shutil.ignore_patterns("__pycache__", "node_modules")
    for part in ("src", "tests", "docs", "examples", "bench", "requirements"):
        shutil.copytree(ROOT / part, copy / part, ignore=ignored)
    settings = {
        "source_paths": ["src"],
        "only_mutate": [source],
        "also_copy": ["docs", "examples", "bench", "requirements"],
        "pytest_add_cli_args_test_selection": tests,
        "pytest_add_cli_args": ["-p", "no:cacheprovider", "-m", "not reads_source"],
    }
    lines = [f"{key} = {json.dumps(value)}\n" for key, value in settings.items()]
    text = (ROOT / "pyproject.toml").read_text() + "\n[tool.mutmut]\n" + "".join(lines)
    (copy / "pyproject.toml").write_text(text)
    for command in ("run", "results"):
        code = subprocess.run([str(bin_ / "mutmut"), command], cwd=copy, check=False).returncode  # noqa: S603
        if code:
            raise SystemExit(code)


def fleet(bin_: Path) -> None:
    """Run replicas until Ctrl-C, which reaches them and their servers by way of the program."""
    command = [str(bin_ / "python"), "-m", "tests.support.system.fleet"]
    with subprocess.Popen(command, cwd=ROOT) as program:  # noqa: S603
        while program.poll() is None:
            with suppress(KeyboardInterrupt):
                program.wait()


def map_(bin_: Path) -> None:
    run([str(bin_ / "python"), "-m", "bench.architecture"])


def docs(bin_: Path) -> None:
    """Build the documentation site; a dead link or a page without a place in the menu fails."""
    run([str(bin_ / "python"), "-m", "mkdocs", "build", "--quiet", "--strict"], NO_MKDOCS_2_WARNING="1")
    print(f"open {ROOT / 'site' / 'index.html'}")


def audit(bin_: Path) -> None:
    run([str(bin_ / "pip-audit"), "--strict", "--require-hashes", "--disable-pip", "-r", str(DEV_LOCK)])


def fix(bin_: Path) -> None:
    run([str(bin_ / "ruff"), "check", "--fix", "--quiet", "."])
    run([str(bin_ / "ruff"), "format", "--quiet", "."])


def lock() -> None:
    """Resolve the lock files for every platform and Python; needs `uv` on the path."""
    compile_ = ["uv", "pip", "compile", "--quiet", "--universal", "--generate-hashes", "--no-annotate"]
    compile_ += ["--python-version", "3.11", "--custom-compile-command", "python dev.py lock"]
    run([*compile_, "pyproject.toml", "-o", str(RUN_LOCK)])
    extras = [word for extra in ("auth", "otel", "yaml") for word in ("--extra", extra)]
    lowest = [*compile_, "--resolution", "lowest-direct", "pyproject.toml", *extras]
    run([*lowest, "--group", "cli-tests", "-o", str(LOWEST_LOCK)])
    compile_ += ["pyproject.toml", "requirements/build.in"]
    run([*compile_, "--group", "dev", "-o", str(DEV_LOCK)])
    run([*compile_, "requirements/bench.in", "-o", str(BENCH_LOCK)])


def bench(*arguments: str) -> None:
    bin_ = environment(".venv-bench", BENCH_LOCK)
    run([str(bin_ / "python"), "-m", "bench", *arguments])


def main() -> None:
    job, *arguments = sys.argv[1:] or ["help"]
    if job == "lock":
        lock()
    elif job == "demo":
        demo()
    elif job == "bench":
        bench(*arguments)
    elif job in JOBS:
        JOBS[job](environment(".venv", DEV_LOCK), *arguments)
    else:
        print(__doc__, file=sys.stderr)
        raise SystemExit(2)


JOBS = {
    "test": test,
    "conformance": conformance,
    "reliability": reliability,
    "soak": soak,
    "lowest": lowest,
    "matrix": matrix,
    "mutate": mutate,
    "release": release,
    "docs": docs,
    "fleet": fleet,
    "map": map_,
    "audit": audit,
    "fix": fix,
}

if __name__ == "__main__":
    main()
