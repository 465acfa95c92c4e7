"""How many windows there are along an axis."""

from __future__ import annotations

from atled.errors import four_parts


class OutputSizes:
    """Counts windows, as neon does or as caffe does.

    compat_mode: "caffe" for the counts of caffe in poolings.
    """

    compat_mode: str | None

    def output_dim(self, X: int, S: int, padding: int, strides: int, pooling: bool = False, dilation: int = 1) -> int:
        """Count of windows along an axis, less than 1 where none fits.

        X: elements.  S: elements of a window, which dilation spreads over `dilation * (S - 1) + 1`.
        padding: places on both sides.  strides: from one window to the next.
        pooling: whether caffe mode rounds the count up: the last window may reach beyond the padding then, but not
            begin in that behind the elements.

            (X - S + 2 * padding) // strides + 1

        ValueError: of a pooling, padding that holds a whole window.
        """
        window = dilation * (S - 1) + 1
        if pooling and padding >= window:
            raise ValueError(
                four_parts(
                    f"output_dim(X={X}, S={S}, padding={padding}, strides={strides}, pooling=True)",
                    f"a window of {window} elements would see padding only",
                    "",
                    f"use less padding, {window - 1} at most",
                )
            )
        span = X - window + 2 * padding
        if not (pooling and self.compat_mode == "caffe"):
            return span // strides + 1
        count = -(-span // strides) + 1
        return count - 1 if padding > 0 and (count - 1) * strides >= X + padding else count
