"""Moments put into steps of equal length by the database."""

from typing import Any

from django.db.models import Func, IntegerField


class TimeStep(Func):
    """The number of the step of so many seconds that a moment falls into, counted from 1970."""

    output_field = IntegerField()

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        template = f"FLOOR(date_part('epoch', %(expressions)s) / {self.extra['seconds']})::integer"
        return self.as_sql(compiler, connection, template=template, **context)

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        template = f"(CAST(strftime('%%%%s', %(expressions)s) AS INTEGER) / {self.extra['seconds']})"
        return self.as_sql(compiler, connection, template=template, **context)
