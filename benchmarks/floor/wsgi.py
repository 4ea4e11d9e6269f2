"""The WSGI application of the bare views."""

import os

os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.floor.settings"

from django.core.wsgi import get_wsgi_application

application = get_wsgi_application()
