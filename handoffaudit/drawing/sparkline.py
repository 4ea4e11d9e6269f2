"""A few numbers over time, so small that it stands in a line of a list."""

from collections.abc import Sequence

from handoffaudit.drawing.drawing import Drawing
from handoffaudit.drawing.svg import element, frame

_GAP = 1.5
_LEAST = 1.5


def sparkline(
    numbers: Sequence[int], *, title: str, prefix: str, labels: Sequence[str] = (), width: int = 112, height: int = 28
) -> Drawing:
    """A bar for each number, the last one at the right; each number is told in the drawing's words too. It has the
    colour of the text that it stands in. `labels` say what each bar is of, in its table."""
    highest = max(numbers, default=0) or 1
    pitch = width / max(len(numbers), 1)
    floor = element("path", d=f"M0 {height - 0.5}H{width}", stroke="currentColor", stroke_opacity=0.3)
    bars = [
        element(
            "rect",
            x=at * pitch + _GAP / 2,
            y=height - tall,
            width=max(pitch - _GAP, 1.0),
            height=tall,
            fill="currentColor",
            class_="spark-last" if at == len(numbers) - 1 else "spark",
        )
        for at, number in enumerate(numbers)
        if number > 0
        for tall in [max(number / highest * height, _LEAST)]
    ]
    told = f"{title}: {', '.join(f'{number:,}' for number in numbers) or 'nothing'}."
    svg = frame(
        floor, *bars, width=width, height=height, title=title, description=told, prefix=prefix, class_="sparkline"
    )
    rows = tuple((label, f"{number:,}") for label, number in zip(labels, numbers, strict=False))
    return Drawing(svg=svg, text=(told,), columns=("Period", "Number"), rows=rows)
