"""The adapter of django-allauth: sign-in by name and password, with lockout, without sign-up and without e-mail."""

import math
import time
from typing import Any

import structlog
from allauth.account.adapter import DefaultAccountAdapter
from allauth.core.internal import ratelimit
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.base_user import AbstractBaseUser
from django.core.cache import cache
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from handoffaudit.accounts import second_factor, single_sign_on
from handoffaudit.accounts.models import Person

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
        """Begin the session; people who signed in through the provider do so again after half a day."""
        super().login(request, user)
        if second_factor.is_from_provider(request, user):
            single_sign_on.record_sign_in(user)
        elif settings.PASSWORD_SIGN_IN:
            return
        request.session.set_expiry(settings.OIDC_SESSION_SECONDS)

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
        # start a new count.
        return str(credentials.get("username", "")).strip().lower()


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
