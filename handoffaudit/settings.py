"""All settings, from environment variables. `docs/settings.md` lists each variable."""

import importlib.metadata
from pathlib import Path

from csp.constants import NONE, SELF

from handoffaudit.env import (
    amount,
    broker_options,
    check_prices,
    checkpoint_places,
    choice,
    data_folder,
    databases,
    env,
    file_or_none,
    folder_or_none,
    folders,
    lists_by_name,
    mail_sender,
    mail_server,
    most_log_ratio,
    positive,
    private_targets,
    redis_address,
    secret_key,
    token,
    uses_pgbouncer,
    web_address,
)
from handoffaudit.observability import configure_logs

VERSION = importlib.metadata.version("handoffaudit")
PACKAGE = Path(__file__).resolve().parent
# A wheel contains the templates and static files in the package. A checkout has them beside the package.
WEB = PACKAGE / "_web" if (PACKAGE / "_web").is_dir() else PACKAGE.parent

DATA_FOLDER = data_folder()
SECRET_KEY = secret_key(DATA_FOLDER)
DEBUG = env.bool("HANDOFFAUDIT_DEBUG", False)
ALLOWED_HOSTS = env.list("HANDOFFAUDIT_ALLOWED_HOSTS", ["localhost", "127.0.0.1", "[::1]"], subcast=str.strip)
PUBLIC_URL = env.str("HANDOFFAUDIT_PUBLIC_URL", "").rstrip("/")
HTTPS = PUBLIC_URL.startswith("https://")
CSRF_TRUSTED_ORIGINS = [PUBLIC_URL] if PUBLIC_URL else []

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.humanize",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    "django_htmx",
    "ninja",
    "handoffaudit.accounts",
    "handoffaudit.policy",
    "handoffaudit.handoffs",
    "handoffaudit.trust",
    "handoffaudit.diagnostics",
    "handoffaudit.dashboard",
]

MIDDLEWARE = [
    "handoffaudit.api.errors.ProblemMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "csp.middleware.CSPMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    # Compressed pages are a tenth as long. The middleware adds random padding, and form tokens differ in each response,
    # so lengths reveal no secrets.
    "django.middleware.gzip.GZipMiddleware",
    # Sessions are read and written inside this middleware.
    "handoffaudit.replica.ReplicaMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
]

ROOT_URLCONF = "handoffaudit.urls"
WSGI_APPLICATION = "handoffaudit.wsgi.application"

TEMPLATES = [
    {
        "BACKEND": "handoffaudit.dashboard.apps.Templates",
        "NAME": "django",
        "DIRS": [WEB / "templates"],
        "OPTIONS": {
            "loaders": [
                (
                    "template_partials.loader.Loader",
                    [
                        (
                            "django.template.loaders.cached.Loader",
                            [
                                "handoffaudit.dashboard.apps.UnindentedLoader",
                                "django.template.loaders.app_directories.Loader",
                            ],
                        )
                    ],
                )
            ],
            # The library is registered here, because its application in INSTALLED_APPS would load Django's admin.
            "libraries": {"partials": "template_partials.templatetags.partials"},
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "handoffaudit.dashboard.navigation.shell_context",
            ],
        },
    }
]

PGBOUNCER = uses_pgbouncer()
DATABASES = databases(DATA_FOLDER)
DATABASE_ROUTERS = ["handoffaudit.replica.Router"] if "replica" in DATABASES else []
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
AUTH_USER_MODEL = "accounts.Person"

REDIS_URL = redis_address("REDIS_URL")
CACHES = {
    "default": (
        {
            "BACKEND": "handoffaudit.redis_client.FallbackCache",
            "LOCATION": REDIS_URL,
            "OPTIONS": {"socket_connect_timeout": 1, "socket_timeout": 2, "retry": None},
        }
        if REDIS_URL
        else {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}
    )
}

AUTHENTICATION_BACKENDS = ["allauth.account.auth_backends.AuthenticationBackend"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
ACCOUNT_LOGIN_METHODS = {"username"}
ACCOUNT_SIGNUP_FIELDS = ["username*", "password1*"]
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_ADAPTER = "handoffaudit.accounts.sign_in.AccountAdapter"
# Failures are counted by address and by user name. "login" would count successes too and answer with a bare page.
# "begin_sign_in" is ours.
ACCOUNT_RATE_LIMITS = {"login": None, "login_failed": "10/m/ip,5/5m/key", "begin_sign_in": "30/m/ip"}
ACCOUNT_SESSION_REMEMBER = True

# Sign-in with OpenID Connect, and the other ways to sign in.
OIDC_ISSUER = web_address("HANDOFFAUDIT_OIDC_ISSUER")
OIDC_CLIENT_ID = env.str("HANDOFFAUDIT_OIDC_CLIENT_ID", "")
OIDC_CLIENT_SECRET = env.str("HANDOFFAUDIT_OIDC_CLIENT_SECRET", "")
OIDC_NAME = env.str("HANDOFFAUDIT_OIDC_NAME", "SSO")
OIDC_SCOPES = env.list("HANDOFFAUDIT_OIDC_SCOPES", ["openid", "profile", "email"], subcast=str.strip)
OIDC_ALLOWED_DOMAINS: list[str] = env.list("HANDOFFAUDIT_OIDC_ALLOWED_DOMAINS", [], subcast=str.strip)
OIDC_VERIFIED_CLAIM = env.str("HANDOFFAUDIT_OIDC_VERIFIED_CLAIM", "email_verified")
OIDC_ROLE_CLAIM = env.str("HANDOFFAUDIT_OIDC_ROLE_CLAIM", "")
OIDC_ROLES = lists_by_name("HANDOFFAUDIT_OIDC_ROLES")
OIDC_DEFAULT_ROLE = env.str("HANDOFFAUDIT_OIDC_DEFAULT_ROLE", "")
# After this many seconds, a person must sign in through the provider again, which also applies the role that the
# provider gives.
OIDC_SESSION_SECONDS = 12 * 3600
PASSWORD_SIGN_IN = env.bool("HANDOFFAUDIT_PASSWORD_SIGN_IN", True)
ADMIN_SECOND_FACTOR = env.bool("HANDOFFAUDIT_ADMIN_SECOND_FACTOR", False)
SOCIALACCOUNT_ADAPTER = "handoffaudit.accounts.openid.SignInAdapter"
SOCIALACCOUNT_PROVIDERS = {
    "openid_connect": {"provider_class": "handoffaudit.accounts.openid.Provider", "OAUTH_PKCE_ENABLED": True}
}
MFA_ADAPTER = "handoffaudit.accounts.sign_in.SecondFactorAdapter"
MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
MFA_PASSKEY_LOGIN_ENABLED = True
MFA_RECOVERY_CODES_SHOW_ONCE = True
MFA_TOTP_ISSUER = "handoffaudit"
LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "home"
ACCOUNT_LOGOUT_REDIRECT_URL = "account_login"

SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HTTPS
SECURE_SSL_REDIRECT = False
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS else 0
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if env.bool("HANDOFFAUDIT_BEHIND_PROXY", False) else None
# The lockout counts the address of the client. The proxy's address would count for everybody.
ALLAUTH_TRUSTED_PROXY_COUNT = 1 if SECURE_PROXY_SSL_HEADER else 0
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "base-uri": [NONE],
        "connect-src": [SELF],
        "font-src": [SELF],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
        "img-src": [SELF, "data:"],
        "manifest-src": [SELF],
        "script-src": [SELF],
        "style-src": [SELF],
    }
}

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True

STATIC_URL = "static/"
STATIC_ROOT = Path(env.str("HANDOFFAUDIT_STATIC", str(DATA_FOLDER / "static")))
STATICFILES_DIRS = [WEB / "static"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "handoffaudit.staticfiles.Storage"},
}

# Limits of the API. A request over a limit is refused with the name and value of the limit.
MAX_BODY_BYTES = positive("HANDOFFAUDIT_MAX_BODY_BYTES", 1024 * 1024)
MAX_BATCH_ITEMS = positive("HANDOFFAUDIT_MAX_BATCH_ITEMS", 1000)
MAX_BATCH_BYTES = positive("HANDOFFAUDIT_MAX_BATCH_BYTES", 64 * 1024 * 1024)
MAX_LOG_BYTES = positive("HANDOFFAUDIT_MAX_LOG_BYTES", 2 * 1024 * 1024 * 1024)
MAX_LOG_RATIO = most_log_ratio()
MAX_TELEMETRY_BYTES = positive("HANDOFFAUDIT_MAX_TELEMETRY_BYTES", 16 * 1024 * 1024)
MAX_NESTING = positive("HANDOFFAUDIT_MAX_NESTING", 64)
RATE_PER_MINUTE = positive("HANDOFFAUDIT_RATE_PER_MINUTE", 200_000)
# Waits end well before `request_bodies.SILENT_SECONDS`, after which the waiting connection may be ended.
MAX_WAIT_SECONDS = positive("HANDOFFAUDIT_MAX_WAIT_SECONDS", 60, most=120)
MAX_HOOK_SECONDS = positive("HANDOFFAUDIT_MAX_HOOK_SECONDS", 65, most=120)
MAX_WAITING_REQUESTS = positive("HANDOFFAUDIT_MAX_WAITING_REQUESTS", 24)
# The seconds that one database statement of a page or an API call may take on PostgreSQL.
# PostgreSQL takes at most 2,147,483,647 milliseconds.
MAX_STATEMENT_SECONDS = positive("HANDOFFAUDIT_MAX_STATEMENT_SECONDS", 30, most=2_147_483)
MIN_FREE_BYTES = amount("HANDOFFAUDIT_MIN_FREE_BYTES", 500_000_000)
KEY_CACHE_SECONDS = amount("HANDOFFAUDIT_KEY_CACHE_SECONDS", 2.0)
DATA_UPLOAD_MAX_MEMORY_SIZE = MAX_BATCH_BYTES

# Validation: how many handoffs one lease takes and for how many seconds, and after how many tries a handoff is parked.
LEASE_SIZE = positive("HANDOFFAUDIT_CLAIM_SIZE", 200)
LEASE_SECONDS = positive("HANDOFFAUDIT_CLAIM_SECONDS", 60)
LEASE_TRIES = positive("HANDOFFAUDIT_CLAIM_TRIES", 3)
SWEEP_SECONDS = positive("HANDOFFAUDIT_SWEEP_SECONDS", 5)
# The jobs of each worker every SWEEP_SECONDS, in this order.
PERIODIC_JOBS = (
    "handoffaudit.handoffs.tasks.sweep",
    "handoffaudit.handoffs.span_assembly.look_for_traces",
    "handoffaudit.handoffs.partitions.look",
    "handoffaudit.handoffs.partitions.gather_statistics",
    "handoffaudit.diagnostics.status.record_heartbeat",
    "handoffaudit.diagnostics.tasks.look_for_judged",
    "handoffaudit.diagnostics.tasks.look_for_logs",
    "handoffaudit.diagnostics.tasks.look_for_thresholds",
    "handoffaudit.diagnostics.tasks.look_for_samples",
    "handoffaudit.diagnostics.tasks.look_for_old",
    "handoffaudit.diagnostics.tasks.look_for_erasures",
    "handoffaudit.diagnostics.tasks.look_for_blocked",
    "handoffaudit.diagnostics.tasks.look_for_reports",
    "handoffaudit.diagnostics.tasks.look_for_ended_mutes",
    "handoffaudit.trust.seals.seal_due",
    "handoffaudit.trust.checkpoints.write_due",
)
# Seconds without a new span after which the handoffs of an OpenTelemetry trace are made, and after which its spans are
# removed. Spans are kept longer, because the spans of agents that are still at work come last.
TELEMETRY_QUIET_SECONDS = positive("HANDOFFAUDIT_TELEMETRY_QUIET_SECONDS", 10)
TELEMETRY_KEEP_SECONDS = positive("HANDOFFAUDIT_TELEMETRY_KEEP_SECONDS", 3600)
# The filters of handoffs find the members of a finding group with this function.
GROUP_MEMBERS = "handoffaudit.diagnostics.group_members.members"
# Seconds between saving a retention rule and its first deletion, so that people can take the rule back.
RETENTION_SECONDS = positive("HANDOFFAUDIT_RETENTION_SECONDS", 3600)
# Checkpoints of the audit log and the seals: where they are written, and the seconds between two checkpoints of a
# tenant.
CHECKPOINTS = checkpoint_places("HANDOFFAUDIT_CHECKPOINTS", DATA_FOLDER)
CHECKPOINT_SECONDS = positive("HANDOFFAUDIT_CHECKPOINT_SECONDS", 3600)
REVIEW_HOLD_SECONDS = 300
SKILLS_FOLDER = folder_or_none("HANDOFFAUDIT_SKILLS")
REFERENCE_ROOTS = folders("HANDOFFAUDIT_REFERENCE_ROOTS")

# The LLM is asked only with a key, or through a provider with credentials of its own. If the LLM is not asked, verdicts
# say so.
MODEL_PROVIDER = choice("HANDOFFAUDIT_MODEL_PROVIDER", "anthropic", ("anthropic", "bedrock", "vertex"))
ANTHROPIC_API_KEY = env.str("ANTHROPIC_API_KEY", "")
MODEL_BASE_URL = web_address("ANTHROPIC_BASE_URL")
MODEL_FAST = env.str("HANDOFFAUDIT_MODEL_FAST", "claude-haiku-5-5")
MODEL_CAREFUL = env.str("HANDOFFAUDIT_MODEL_CAREFUL", "claude-sonnet-5-5")
MODEL_SECONDS = positive("HANDOFFAUDIT_MODEL_SECONDS", 60)
MODEL_CONNECT_SECONDS = positive("HANDOFFAUDIT_MODEL_CONNECT_SECONDS", 5)
MODEL_TRIES = positive("HANDOFFAUDIT_MODEL_TRIES", 3)
MODEL_CONCURRENCY = positive("HANDOFFAUDIT_MODEL_CONCURRENCY", 32)
MODEL_DAILY_USD = amount("HANDOFFAUDIT_MODEL_DAILY_USD", 10.0)
check_prices()
MODEL_BREAKER_FAILURES = positive("HANDOFFAUDIT_MODEL_BREAKER_FAILURES", 5)
MODEL_BREAKER_SECONDS = positive("HANDOFFAUDIT_MODEL_BREAKER_SECONDS", 30)
MODEL_CATCH_UP_HOURS = positive("HANDOFFAUDIT_MODEL_CATCH_UP_HOURS", 168)
MODEL_CACHE_DAYS = positive("HANDOFFAUDIT_MODEL_CACHE_DAYS", 30)

# Webhooks: the non-public addresses that requests may go to, and the mail server.
WEBHOOK_PRIVATE = private_targets("HANDOFFAUDIT_WEBHOOK_PRIVATE")
_MAIL = mail_server("HANDOFFAUDIT_EMAIL_URL")
EMAIL_SET_UP = bool(_MAIL)
EMAIL_HOST = _MAIL.get("EMAIL_HOST", "localhost")
EMAIL_PORT = _MAIL.get("EMAIL_PORT", 25)
EMAIL_HOST_USER = _MAIL.get("EMAIL_HOST_USER", "")
EMAIL_HOST_PASSWORD = _MAIL.get("EMAIL_HOST_PASSWORD", "")
EMAIL_USE_SSL = _MAIL.get("EMAIL_USE_SSL", False)
EMAIL_USE_TLS = _MAIL.get("EMAIL_USE_TLS", False)
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = mail_sender("HANDOFFAUDIT_EMAIL_FROM", "handoffaudit@localhost")

QUEUE_FOLDER = DATA_FOLDER / "queue"
CELERY_BROKER_URL = REDIS_URL or "filesystem://localhost"
CELERY_BROKER_TRANSPORT = None if REDIS_URL else "handoffaudit.celery:Transport"
CELERY_BROKER_TRANSPORT_OPTIONS = broker_options(REDIS_URL, QUEUE_FOLDER)
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
# A worker judges handoffs without the broker, and reconnects however long the broker was away.
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = False
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_SEND_TASK_EVENTS = False
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_TASK_DEFAULT_QUEUE = "structural"
# Tasks that ask the LLM have a queue of their own, so that slow answers of the LLM never hold up structural verdicts.
CELERY_TASK_ROUTES = {
    f"handoffaudit.handoffs.tasks.{task}": {"queue": "semantic"} for task in ("check_waiting", "try_prompts")
}
CELERY_TIMEZONE = "UTC"

# The bearer token of `/metrics`. Without a token, the address does not exist.
METRICS_TOKEN = token("HANDOFFAUDIT_METRICS_TOKEN")
EVENTS_FILE = file_or_none("HANDOFFAUDIT_EVENTS_FILE")
LOG_FORMAT = choice("HANDOFFAUDIT_LOG_FORMAT", "text" if DEBUG else "json", ("text", "json"))
LOG_LEVEL = choice("HANDOFFAUDIT_LOG_LEVEL", "INFO", ("DEBUG", "INFO", "WARNING", "ERROR"))
LOGGING_CONFIG = None
configure_logs(LOG_FORMAT, LOG_LEVEL)
