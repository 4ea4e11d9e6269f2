from django.conf import settings
from django.db import connection

# SQLite in memory is shared by threads without waiting for each other's locks; a file is what the product has.
if connection.vendor == "sqlite" and not connection.settings_dict["TEST"]["NAME"]:
    connection.settings_dict["TEST"]["NAME"] = str(settings.DATA_FOLDER / "tests.sqlite3")
