"""What kernels in textual IR begin with: the words of their block by name, and the units of their share."""

from __future__ import annotations

from collections.abc import Sequence


def opening(name: str, block: type, words: Sequence[str]) -> str:
    """The head of a kernel, with a value of each of these words of its layout."""
    loads = "".join(
        f"""
  %{word}.at = getelementptr i64, ptr %words, i64 {getattr(block, word)}
  %{word} = load i64, ptr %{word}.at"""
        for word in words
    )
    return f"""
define i64 @{name}(i64 %block, i64 %part, i64 %parts) {{
entry:
  %words = inttoptr i64 %block to ptr{loads}"""


SHARE = """
  %scaled = mul i64 %units, %part
  %first = udiv i64 %scaled, %parts
  %next.part = add i64 %part, 1
  %scaled.end = mul i64 %units, %next.part
  %end = udiv i64 %scaled.end, %parts
  %any = icmp ult i64 %first, %end"""
"""The share of a part in %units: from %first to before %end, and whether there is %any."""
