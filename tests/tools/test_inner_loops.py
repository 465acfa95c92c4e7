"""What the tool for innermost loops reads of an assembly, and what it says of a kernel."""

import json
import platform
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "tools"))

import inner_loops  # after the path is set

_ASSEMBLY = """
sum:                                    # @sum
# %bb.0:
	movq	%rdi, %rax
.LBB0_1:                                # %outer
                                        # =>This Loop Header: Depth=1
                                        #     Child Loop BB0_2 Depth 2
	vmovups	(%rax), %zmm5
	.p2align	4
.LBB0_2:                                # %inner
                                        #   Parent Loop BB0_1 Depth=1
                                        # =>  This Inner Loop Header: Depth=2
	movq	8(%rsp), %rcx                   # 8-byte Reload
	vmovups	(%rcx), %zmm0
	vfmadd231ps	(%rsi){1to16}, %zmm0, %zmm1 # zmm1 = (zmm0 * mem) + zmm1
	vfmadd231ps	%zmm0, %zmm2, %zmm3     # zmm3 = (zmm2 * zmm0) + zmm3
	vmovaps	%zmm1, %zmm4
	prefetcht1	(%rcx)
	testq	%rdx, %rdx
	je	.LBB0_4
# %bb.3:                                #   in Loop: Header=BB0_2 Depth=2
	vmovups	%zmm4, (%rdi) {%k1}
	vmovups	%zmm3, 64(%rsp)                 # 64-byte Spill
.LBB0_4:                                #   in Loop: Header=BB0_2 Depth=2
	leaq	(%rcx,%rdx), %rcx
	cmpq	%rcx, 16(%rsp)                  # 8-byte Folded Reload
	jne	.LBB0_2
# %bb.5:                                #   in Loop: Header=BB0_1 Depth=1
	jmp	.LBB0_1
"""


def test_the_innermost_loop_is_found_with_the_blocks_in_it():
    (loop,) = inner_loops.loops_of(_ASSEMBLY)
    assert (loop.label, loop.depth, loop.blocks, len(loop.instructions)) == ("LBB0_2", 2, 3, 13)


def test_instructions_are_counted_by_what_they_do():
    (loop,) = inner_loops.loops_of(_ASSEMBLY)
    expected = inner_loops.Counts(
        width=512,
        instructions=13,
        multiply_adds=2,
        loads=4,  # a pointer from the stack, two of elements, one that is compared
        stores=2,
        moves=1,
        spills=3,
    )
    assert inner_loops.counts_of(loop) == expected


@pytest.mark.skipif(inner_loops._mca() is None, reason="llvm-mca is not installed")
def test_a_loop_takes_at_least_as_long_as_its_sums():
    (loop,) = inner_loops.loops_of(_ASSEMBLY)
    pace = inner_loops.pace_of(loop, "skylake-avx512")
    assert 1.0 == pace.bound <= pace.cycles


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="LLVM knows x86's processors there")
@pytest.mark.parametrize("cpu, width", [("znver4", 512), ("haswell", 256)])
def test_a_kernel_is_compiled_for_a_processor_that_need_not_be_here(cpu, width):
    asked = ["--json", "--cpu", cpu, "--kernel", "multiply_few_float32"]
    done = subprocess.run([sys.executable, inner_loops.__file__, *asked], capture_output=True, text=True, check=True)
    (kernel,) = json.loads(done.stdout)
    assert kernel["kernel"] == "multiply_few_float32"
    assert all(loop["width"] == width and loop["spills"] == 0 for loop in kernel["loops"])
    assert max(loop["multiply_adds"] for loop in kernel["loops"]) == 12
