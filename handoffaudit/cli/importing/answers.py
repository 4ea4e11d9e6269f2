"""What became of each submission, and the sum of it."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

LINES_SHOWN = 5
STORED = {200: "already_there", 202: "taken", 422: "rejected"}


@dataclass(frozen=True, slots=True)
class Answer:
    """`status` as the API gives it: 202 taken, 200 there already, 422 stored as rejected, anything else refused.
    `codes` say what is wrong with a rejected one; `why` says it of a refused one, with `remedy`."""

    status: int
    codes: tuple[str, ...] = ()
    why: str = ""
    remedy: str = ""


@dataclass(slots=True)
class Reason:
    number: int = 0
    lines: list[str] = field(default_factory=list)
    remedy: str = ""

    def add(self, line: str, remedy: str = "") -> None:
        self.number += 1
        self.remedy = self.remedy or remedy
        if len(self.lines) < LINES_SHOWN:
            self.lines.append(line)


@dataclass(slots=True)
class Report:
    counts: Counter[str] = field(default_factory=Counter)
    rejected: dict[str, Reason] = field(default_factory=dict)
    refused: dict[str, Reason] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def rate(self) -> float:
        return self.total / self.seconds if self.seconds else 0.0

    def add(self, line: str, answer: Answer) -> None:
        kind = STORED.get(answer.status, "refused")
        self.counts[kind] += 1
        if kind == "rejected":
            for code in dict.fromkeys(answer.codes):
                self.rejected.setdefault(code, Reason()).add(line)
        elif kind == "refused":
            self.refused.setdefault(answer.why, Reason()).add(line, answer.remedy)

    def as_json(self) -> dict[str, Any]:
        return {
            "total": self.total,
            **{name: self.counts[name] for name in ("taken", "already_there", "rejected", "refused")},
            "rejected_by_code": {
                code: {"number": one.number, "lines": one.lines} for code, one in self.rejected.items()
            },
            "refused_by_reason": {
                why: {"number": one.number, "lines": one.lines, "remedy": one.remedy}
                for why, one in self.refused.items()
            },
            "seconds": round(self.seconds, 3),
            "per_second": round(self.rate, 1),
        }

    def as_text(self) -> str:
        noun = "document" if self.total == 1 else "documents"
        lines = [f"{self.total:,} {noun} in {self.seconds:,.1f} s ({self.rate:,.0f} a second)"]
        rows = (
            ("taken", ""),
            ("already_there", ""),
            ("rejected", "stored, with what is wrong"),
            ("refused", "not stored"),
        )
        for name, note in rows:
            number = self.counts[name]
            lines.append(f"  {name.replace('_', ' '):<14}{number:>9,}{'  ' + note if number and note else ''}")
            for why, reason in {"rejected": self.rejected, "refused": self.refused}.get(name, {}).items():
                more = ", …" if reason.number > len(reason.lines) else ""
                lines.append(f"      {why}: {reason.number:,} (line {', '.join(reason.lines)}{more})")
                if reason.remedy:
                    lines.append(f"        {reason.remedy}")
        return "\n".join(lines)
