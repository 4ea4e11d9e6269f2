"""Adapters of django-allauth: sign-in by name and password with lockout, and second factors with their rules."""

import base64
import hashlib
import io
import math
import secrets
import time
from datetime import timedelta
from typing import Any, Final

import qrcode
import structlog
from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.authentication import get_authentication_records
from allauth.core.internal import ratelimit
from allauth.mfa import signals
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from cryptography.fernet import Fernet, InvalidToken
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.base_user import AbstractBaseUser
from django.core.cache import cache
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from qrcode.image.svg import SvgPathFillImage

from handoffaudit.accounts import audit, single_sign_on
from handoffaudit.accounts.models import Person, Role

FACTOR_NAMES: Final = {
    Authenticator.Type.TOTP: "authenticator app",
    Authenticator.Type.WEBAUTHN: "passkey",
    Authenticator.Type.RECOVERY_CODES: "recovery codes",
}
APP, ACTION = "allauth.account", "login_failed"
log = structlog.get_logger(__name__)


class AccountAdapter(DefaultAccountAdapter):  # type: ignore[misc]
    """Account adapter with the parts of django-allauth that handoffaudit overrides."""

    error_messages = {
        **DefaultAccountAdapter.error_messages,
        "username_password_mismatch": "The name or the password is wrong. Check both and try again.",
        "incorrect_password": "This is not your password. Check it and try again.",
        "too_many_login_attempts": "Too many failed attempts. Try again in 5 minutes.",
        "rate_limited": "Too many failed attempts. Try again in 5 minutes.",
    }

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def add_message(self, *args: Any, **kwargs: Any) -> None:
        """Add no message, because the next page shows that the person is signed in or out."""

    def login(self, request: HttpRequest, user: Person) -> None:
        """Begin the session.

        The session ends after half a day if the provider signed the person in, or if sign-in with a password is off.
        """
        super().login(request, user)
        if is_from_provider(request, user):
            single_sign_on.record_sign_in(user)
        elif settings.PASSWORD_SIGN_IN:
            return
        # With an expiry in seconds, each save of the session would postpone its end, and some pages save the session.
        request.session.set_expiry(timezone.now() + timedelta(seconds=settings.OIDC_SESSION_SECONDS))

    def respond_user_inactive(self, request: HttpRequest, user: AbstractBaseUser) -> HttpResponse:
        messages.error(request, "This account is disabled. Ask an administrator to enable it.")
        return redirect("account_login")

    def pre_authenticate(self, request: HttpRequest, **credentials: Any) -> None:
        try:
            super().pre_authenticate(request, **credentials)
        except ValidationError as error:
            seconds = _lockout_seconds(request, self._get_login_attempts_cache_key(request, **credentials))
            log.warning("sign_in.locked", name=credentials.get("username", ""), ip=self.get_client_ip(request))
            raise ValidationError(
                f"Too many failed attempts. Try again in {_format_seconds(seconds)}.", "locked"
            ) from error

    def _get_login_attempts_cache_key(self, request: HttpRequest, **credentials: Any) -> str:
        # Failures are counted per person: the same name in other letter case, or sent to another host name, must not
        # start a new count. PostgreSQL compares names in upper case, where `i` and the dotless `\u0131` are equal.
        return str(credentials.get("username", "")).strip().upper()


def _lockout_seconds(request: HttpRequest, key: str) -> float:
    now = time.time()
    waits = [0.0]
    for rate in ratelimit.get_rates(app=APP, action=ACTION):
        failures = cache.get(ratelimit.get_cache_key(request, app=APP, action=ACTION, rate=rate, key=key), [])
        if len(failures) >= rate.amount:
            waits.append(failures[-1] + rate.duration - now)
    return max(waits)


def _format_seconds(seconds: float) -> str:
    if seconds <= 60:
        return "one minute"
    return f"{math.ceil(seconds / 60)} minutes"


class SecondFactorAdapter(DefaultMFAAdapter):  # type: ignore[misc]
    """Adapter of django-allauth for second factors. The server's secret key encrypts their secrets in the database."""

    error_messages = {
        **DefaultMFAAdapter.error_messages,
        "incorrect_code": "This code is wrong or was used before. Wait for the next code and try again.",
    }

    def encrypt(self, text: str) -> str:
        return _cipher().encrypt(text.encode()).decode()

    def decrypt(self, encrypted_text: str) -> str:
        """Return the secret, or a random text that fits no code if the server has another secret key than before."""
        try:
            return _cipher().decrypt(encrypted_text.encode()).decode()
        except InvalidToken:
            log.exception("second_factor.unreadable", remedy="Restore the secret key, or reset the second factor.")
            return base64.b32encode(secrets.token_bytes(20)).decode()

    def build_totp_svg(self, url: str) -> str:
        """Return a QR code on a white background, because phones cannot read a light code on a dark page."""
        drawn = io.BytesIO()
        qrcode.make(url, image_factory=SvgPathFillImage).save(drawn)
        return drawn.getvalue().decode()

    def get_totp_label(self, user: Person) -> str:
        return user.username

    def generate_authenticator_name(self, user: Person, type: str) -> str:  # noqa: A002 - the name in django-allauth
        number = Authenticator.objects.filter(user=user, type=type).count() + 1
        return "Passkey" if number == 1 else f"Passkey {number}"


def _cipher() -> Fernet:
    key = hashlib.sha256(f"handoffaudit.second_factor {settings.SECRET_KEY}".encode()).digest()
    return Fernet(base64.urlsafe_b64encode(key))


def is_missing(request: HttpRequest, person: Person, role: Role) -> bool:
    """Return whether the person has to set up a second factor before anything else.

    `HANDOFFAUDIT_ADMIN_SECOND_FACTOR` demands a second factor from administrators who sign in with a password. The
    provider checks people who sign in through the provider. Recovery codes alone are not enough.
    """
    applies = settings.ADMIN_SECOND_FACTOR and settings.PASSWORD_SIGN_IN and role == Role.ADMIN
    if not applies or is_from_provider(request, person):
        return False
    own = Authenticator.objects.filter(user=person).exclude(type=Authenticator.Type.RECOVERY_CODES)
    return not own.exists()


def is_from_provider(request: HttpRequest, person: Person) -> bool:
    """Return whether the person of this session signed in through the OpenID provider."""
    return any(one.get("method") == "socialaccount" for one in get_authentication_records(request, person))


def is_provider_only(person: Person) -> bool:
    """Return whether the person has an account at the OpenID provider, and no password."""
    return not person.has_usable_password() and SocialAccount.objects.filter(user=person).exists()


def record_changes() -> None:
    """Record each change of a second factor in the audit log. Call once, when Django starts."""
    signals.authenticator_added.connect(_record_added, dispatch_uid="handoffaudit.added")
    signals.authenticator_removed.connect(_record_removed, dispatch_uid="handoffaudit.removed")
    signals.authenticator_reset.connect(_record_renewed, dispatch_uid="handoffaudit.renewed")


def _record_added(user: Person, authenticator: Authenticator, **_: Any) -> None:
    _record(user, authenticator, "person.factor_add")


def _record_removed(user: Person, authenticator: Authenticator, **_: Any) -> None:
    _record(user, authenticator, "person.factor_remove")


def _record_renewed(user: Person, authenticator: Authenticator, **_: Any) -> None:
    _record(user, authenticator, "person.factor_renew")


@transaction.atomic
def _record(person: Person, authenticator: Authenticator, action: str) -> None:
    detail = {"factor": FACTOR_NAMES[Authenticator.Type(authenticator.type)]}
    for tenant in person.tenants.order_by("pk"):
        audit.record(tenant=tenant, actor=person.username, action=action, target=person.username, detail=detail)
