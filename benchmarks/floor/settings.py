"""Settings of a bare Django without apps and middleware; the database has the product's settings."""

from handoffaudit.env import data_folder, databases

SECRET_KEY = "not used"
ALLOWED_HOSTS = ["localhost", "127.0.0.1"]
INSTALLED_APPS = ["ninja"]
MIDDLEWARE: list[str] = []
ROOT_URLCONF = "benchmarks.floor.views"
DATABASES = {"default": databases(data_folder())["default"]}
DATA_UPLOAD_MAX_MEMORY_SIZE = 64 * 1024 * 1024
USE_TZ = True
LOGGING_CONFIG = None
