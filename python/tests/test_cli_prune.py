"""`tarn prune` on valid and invalid IR."""

import resource
import shutil
import subprocess
from pathlib import Path

import pytest
import tarn
import tarn.prune
from cli_tool import TOOL, refused, tarn_tool

HEAD = "declare void @NRT_incref(ptr)\ndeclare void @NRT_decref(ptr)\ndeclare void @use(ptr) readonly\n"
PAIR = (
    HEAD
    + """
define void @pair(ptr %a) {
  call void @NRT_incref(ptr %a)
  call void @NRT_decref(ptr %a)
  ret void
}
"""
)
# IR that llvmlite's pass accepts and Tarn's rejects.
EARLY = (
    HEAD
    + """
define void @early(ptr %a, ptr %owner) {
entry:
  call void @NRT_incref(ptr %a)
  br label %end
end:
  call void @NRT_decref(ptr %owner)
  call void @use(ptr %a)
  call void @NRT_decref(ptr %a)
  ret void
}
"""
)


def prune(ir, *args):
    """Return the tool's output; the tool has to succeed."""
    ir = ir if isinstance(ir, bytes) else ir.encode()
    done = subprocess.run([TOOL, "prune", *args], input=ir, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return done


def calls(ir):
    return ir.count(b"call void @NRT_")


def test_text_and_bitcode_go_through_pipes_and_files(tmp_path):
    assert calls(prune(PAIR).stdout) == 0
    bitcode = prune(PAIR, "--emit=bc").stdout
    assert bitcode.startswith(b"BC\xc0\xde")
    assert prune(bitcode).stdout.startswith(b"BC\xc0\xde")
    source, target = tmp_path / "a.bc", tmp_path / "b.ll"
    source.write_bytes(bitcode)
    assert prune("", "--emit=ll", f"--output={target}", str(source)).stdout == b""
    assert b"define void @pair" in target.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.bc", "b.ll"]


def test_a_file_may_be_written_in_its_own_place(tmp_path):
    path = tmp_path / "a.ll"
    path.write_text(PAIR)
    prune("", f"--output={path}", str(path))
    assert calls(path.read_bytes()) == 0


def test_modes_shapes_and_limits_are_asked_for_by_options():
    assert calls(prune(EARLY).stdout) == 3
    assert calls(prune(EARLY, "--compat=llvmlite").stdout) == 1
    assert calls(prune(EARLY, "--compat=llvmlite", "--shapes=per_bb,fanout_raise").stdout) == 3
    assert calls(prune(EARLY, "--compat=llvmlite", "--shapes=fanout", "--limit=1").stdout) == 1
    assert calls(prune(PAIR, "--shapes=all", "--raise-metadata=store,ret").stdout) == 0


def test_a_call_keeps_a_pair_unless_an_option_says_that_it_keeps_references():
    before = "define void @f(ptr %box) {\n  %x = load ptr, ptr %box\n"
    around = (
        "  call void @NRT_incref(ptr %x)\n  call void @any()\n  call void @NRT_decref(ptr %x)\n"
    )
    text = HEAD + "declare void @any()\n" + before + around + "  ret void\n}\n"
    assert calls(prune(text).stdout) == 2
    assert calls(prune(text, "--assume-calls-keep").stdout) == 0
    words = prune(text, "--explain", "--check").stdout.decode()
    assert "a call on the path may release the object" in words and "call void @any()" in words


def test_numbers_and_reasons_keep_out_of_the_ir():
    done = prune(EARLY, "--stats", "--explain")
    assert done.stdout.startswith(b"; ModuleID")
    words = " ".join(done.stderr.decode().split())
    assert "early: incref kept: memory is used between another release and the decref" in words
    assert "because of %end: call void @use(ptr %a)" in words
    assert "increfs 1 decrefs 2 removed 0" in words and "pairs kept 1" in words


def test_check_writes_nothing_but_what_is_asked_for():
    done = prune(EARLY, "--check")
    assert done.stdout == done.stderr == b""
    done = prune(EARLY, "--check", "--stats")
    assert b"<stdin>: 1 functions, 0 of them changed" in done.stdout and done.stderr == b""


def test_the_old_pass_is_asked_for_by_an_option():
    done = prune(PAIR, "--old", "--stats")
    assert calls(done.stdout) == 0
    assert b"2 operations removed by the pass of Numba before 0.52" in done.stderr
    refused(2, "--old excludes --shapes", "prune", "--old", "--explain", input=PAIR)


@pytest.mark.parametrize(
    "ir, says",
    [
        ("define void @f( {", "<stdin>:1:18: error: "),
        ("define i32 @f(i32 %a) {\n  ret i64 %a\n}", "<stdin>:2:11: error: "),
        ("\x00\x01\x02", "<stdin>:1:2: error: "),
        ("", "<stdin> is empty"),
        ("define void @f() from_the_future {\n  ret void\n}", "<stdin>:1:18: error: "),
        (
            "define i32 @late(i32 %a) {\nb:\n  br label %d\nc:\n  %x = add i32 %a, 1\n"
            "  br label %d\nd:\n  ret i32 %x\n}",
            "in function late: Instruction does not dominate all uses!",
        ),
        (b"BC\xc0\xde", "error: "),
        (b"BC\xc0\xde" + bytes(range(256)), "error: "),
    ],
)
def test_bad_ir_is_one_line_and_nothing_is_written(tmp_path, ir, says):
    target = tmp_path / "out.ll"
    target.write_text("as it was")
    refused(1, says, "prune", input=ir)
    refused(1, says, "prune", f"--output={target}", input=ir)
    assert target.read_text() == "as it was"
    assert [path.name for path in tmp_path.iterdir()] == ["out.ll"]


def small_stack():
    _, most = resource.getrlimit(resource.RLIMIT_STACK)
    resource.setrlimit(resource.RLIMIT_STACK, (1 << 20, most))


def test_a_file_that_llvm_dies_of_is_bad_input():
    deep = b"@deep = external global " + b"{ " * 300000
    command = [TOOL, "prune"]
    done = subprocess.run(command, input=deep, capture_output=True, preexec_fn=small_stack)
    assert done.returncode == 1 and done.stdout == b""
    assert b"LLVM crashed on it (signal " in done.stderr and done.stderr.count(b"\n") == 1


def test_truncated_bitcode_is_refused_wherever_it_ends():
    bitcode = prune(PAIR, "--emit=bc").stdout
    for length in range(4, len(bitcode) - 4, len(bitcode) // 16):
        done = tarn_tool("prune", "--check", input=bitcode[:length])
        assert done.returncode == 1, length


def test_what_cannot_be_opened_or_written_is_said(tmp_path):
    refused(1, "cannot open", "prune", tmp_path / "not-there.ll")
    refused(1, "cannot write", "prune", f"--output={tmp_path}/no/folder.ll", input=PAIR)
    if Path("/dev/full").exists():
        refused(1, "cannot write", "prune", "--output=/dev/full", input=PAIR)


@pytest.mark.parametrize(
    "args",
    [
        ["--shapes=diamonds"],
        ["--compat=numba"],
        ["--compat=llvmlite", "--assume-calls-keep"],
        ["--limit=0"],
        ["--limit=-1"],
        ["--llvm=new"],
        ["--raise-metadata="],
        ["--emit=s"],
        ["a.ll", "b.ll"],
        ["--check", "--output=x"],
        ["--nonsense"],
    ],
)
def test_wrong_use_is_told_from_bad_input(args):
    refused(2, "", "prune", *args)


def test_the_llvm_can_be_chosen():
    major = tarn.prune.llvm_version().partition(".")[0]
    assert prune(PAIR, f"--llvm={major}").stdout == prune(PAIR).stdout
    done = refused(1, "libtarn_prune-9.so", "prune", "--llvm=9", input=PAIR)
    assert "llvm-9-dev" in done.stderr


def test_without_the_library_the_tool_says_what_is_missing(tmp_path):
    tool, library = tmp_path / "bin" / "tarn", tmp_path / "tarn" / "lib"
    tool.parent.mkdir()
    library.mkdir(parents=True)
    shutil.copy(TOOL, tool)
    for path in (Path(tarn.__file__).parent / "lib").glob("libtarn.so*"):
        shutil.copy(path, library)
    done = subprocess.run([tool, "prune"], input=b"", capture_output=True, text=False)
    assert done.returncode == 1 and done.stdout == b""
    assert b"libtarn_prune.so" in done.stderr and b"llvm-22-dev" in done.stderr
    assert subprocess.run([tool, "--version"], capture_output=True).returncode == 0
