"""Moments put into steps of equal length by the database."""

from typing import Any

from django.db.models import Func, IntegerField


class TimeStep(Func):
    """The number of the step of so many `seconds` that a moment falls into, counted from `begin` (seconds since 1970;
    1970 where it is not given)."""

    output_field = IntegerField()

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        template = f"FLOOR((date_part('epoch', %(expressions)s) - {self._begin}) / {self.extra['seconds']})::integer"
        return self.as_sql(compiler, connection, template=template, **context)

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        template = f"((CAST(strftime('%%%%s', %(expressions)s) AS INTEGER) - {self._begin}) / {self.extra['seconds']})"
        return self.as_sql(compiler, connection, template=template, **context)

    @property
    def _begin(self) -> int:
        begin: int = self.extra.get("begin", 0)
        return begin
