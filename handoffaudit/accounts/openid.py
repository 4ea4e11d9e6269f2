"""Client of the OpenID provider: django-allauth's client with checks of ID tokens and nonces, and with limits."""

import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import requests
import structlog
import urllib3
from allauth.account.adapter import get_adapter
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialApp, SocialLogin, SocialToken
from allauth.socialaccount.providers.base import ProviderException
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.openid_connect.provider import OpenIDConnectProvider
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.conf import settings
from django.contrib import messages
from django.core.cache import cache
from django.http import HttpRequest
from django.shortcuts import render
from django.urls import reverse
from django.utils.crypto import constant_time_compare, salted_hmac

from handoffaudit.accounts import Refused, single_sign_on
from handoffaudit.accounts.single_sign_on import ASK_ADMINISTRATOR, LONGEST_EMAIL, PROVIDER, Identity

if TYPE_CHECKING:
    from jwt import PyJWK

# These algorithms verify signatures with public keys of the provider. HS256 is left out, because everybody who knows
# the client secret could sign a token with it.
ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")

MOST_BYTES: Final = 1024 * 1024

MOST_SECONDS: Final = 10.0

# The most seconds by which the clocks of provider and server may differ.
LEEWAY: Final = 60

# Seconds before the addresses and keys of the provider are read again.
CACHE_SECONDS: Final = 300

ENDPOINTS: Final = ("authorization_endpoint", "token_endpoint", "jwks_uri")

log = structlog.get_logger(__name__)


class ProviderError(ProviderException):  # type: ignore[misc]
    """The error for an answer of the provider that cannot be used. The message goes to the log, not to the person."""


class BoundedSession(requests.Session):
    """A session whose answers are limited in size and time, and that follows no redirects."""

    def __init__(self) -> None:
        super().__init__()
        # A small compressed answer could be huge when unpacked.
        self.headers["Accept-Encoding"] = "identity"

    def request(self, method: str, url: str, **options: Any) -> requests.Response:  # type: ignore[override]
        until = time.monotonic() + MOST_SECONDS
        given = {"timeout": MOST_SECONDS / 2} | options | {"stream": True, "allow_redirects": False}
        response = super().request(method, url, **given)
        found = bytearray()
        try:
            # `read1` returns what has arrived; other calls wait until a whole chunk is there, however slowly it comes.
            while chunk := response.raw.read1(65_536):
                found += chunk
                if len(found) > MOST_BYTES or time.monotonic() > until:
                    raise requests.RequestException(f"{urlsplit(url).hostname} answers too much or too slowly.")
        except urllib3.exceptions.HTTPError as error:
            raise requests.RequestException(f"{urlsplit(url).hostname} broke off ({type(error).__name__}).") from error
        finally:
            response.close()
        response._content = bytes(found)  # noqa: SLF001 - requests has no other way to bound an answer
        return response


class Client(OpenIDConnectOAuth2Adapter):  # type: ignore[misc]
    """The part of django-allauth that talks with the provider."""

    @property
    def openid_config(self) -> dict[str, Any]:
        """Return the provider's discovery document.

        Raise `ProviderError` for a document that cannot be read, or that names another issuer or an unusable address.
        Raise `requests.RequestException` if the provider cannot be reached.
        """
        address = self.get_provider().server_url
        found: dict[str, Any] = _read(address)
        issuer = str(found.get("issuer", ""))
        expected = address.partition("/.well-known/")[0]
        if issuer.rstrip("/") != expected.rstrip("/"):
            raise ProviderError(f"The discovery document names the issuer {issuer[:200]!r}, not {expected!r}.")
        for name in ENDPOINTS:
            _check_endpoint(name, found.get(name), issuer)
        return found

    def get_callback_url(self, request: HttpRequest, app: SocialApp) -> str:
        path = reverse("oidc_callback")
        return settings.PUBLIC_URL + path if settings.PUBLIC_URL else request.build_absolute_uri(path)

    def get_access_token_data(self, *args: Any, **options: Any) -> dict[str, Any]:
        try:
            data = super().get_access_token_data(*args, **options)
        except OAuth2Error as error:
            # Only the error code is logged, because the answer may have tokens.
            code = re.search(r'"error"\s*:\s*"([a-z_]{1,60})"', str(error))
            raise ProviderError(f"The token endpoint refused the code: {code[1] if code else 'no reason'}.") from None
        except (KeyError, TypeError, ValueError) as error:
            raise ProviderError(f"The token endpoint's answer cannot be read ({type(error).__name__}).") from None
        if not isinstance(data, dict) or not isinstance(data.get("access_token"), str):
            raise ProviderError("The token endpoint's answer has no access token.")
        # The product does not use the access token later, so its expiry does not matter.
        return {"access_token": data["access_token"], "id_token": data.get("id_token")}

    def complete_login(self, request: HttpRequest, app: SocialApp, token: SocialToken, **options: Any) -> SocialLogin:
        claims = self._verify(options["response"]["id_token"], app.client_id, nonce_of(request.GET["state"]))
        identity = _identify(claims, self._read_userinfo(token.token, claims["sub"]))
        login = self.get_provider().sociallogin_from_response(request, identity)
        login.identity = identity
        return login

    def _verify(self, id_token: Any, client_id: str, nonce: str) -> dict[str, Any]:
        """Return the claims of an ID token. Raise `ProviderError` unless the token passes every check."""
        import jwt  # noqa: PLC0415 -- a large import that only sign-in with OpenID Connect needs

        if not isinstance(id_token, str):
            raise ProviderError("The token endpoint's answer has no ID token.")
        try:
            claims: dict[str, Any] = jwt.decode(
                id_token,
                self._find_key(jwt.get_unverified_header(id_token)),
                algorithms=ALGORITHMS,
                audience=client_id,
                issuer=self.openid_config["issuer"],
                leeway=LEEWAY,
                options={"require": ["iss", "sub", "aud", "exp", "iat"]},
            )
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            raise ProviderError(f"The ID token is not valid ({type(error).__name__}: {str(error)[:200]}).") from None
        if not constant_time_compare(str(claims.get("nonce", "")), nonce):
            raise ProviderError("The ID token has another nonce: it does not belong to this sign-in.")
        if claims.get("azp", client_id) != client_id:
            raise ProviderError("The ID token was issued to another client (azp).")
        if not claims["sub"]:
            raise ProviderError("The ID token has an empty subject.")
        return claims

    def _find_key(self, header: Mapping[str, Any]) -> Any:
        for refresh in (False, True):
            # A key that is not known yet may be newer than the stored keys.
            keys = _parse_signing_keys(_read(self.openid_config["jwks_uri"], refresh=refresh))
            fitting = [key for key in keys if header.get("kid") in (None, key.key_id)]
            if len(fitting) == 1:
                return fitting[0].key
        raise ProviderError(
            f"No key of the provider, or more than one, fits the ID token (kid {str(header.get('kid'))[:100]!r})."
        )

    def _read_userinfo(self, access_token: str, subject: str) -> dict[str, Any]:
        address = self.openid_config.get("userinfo_endpoint")
        if not address:
            return {}
        _check_endpoint("userinfo_endpoint", address, self.openid_config["issuer"])
        found = _get(address, headers={"Authorization": f"Bearer {access_token}"})
        if found.get("sub") != subject:
            raise ProviderError("UserInfo is about another account than the ID token.")
        return found


class Provider(OpenIDConnectProvider):  # type: ignore[misc]
    """The provider of the settings, whose accounts are stored by issuer and subject."""

    oauth2_adapter_class = Client

    def get_callback_url(self) -> str:
        return reverse("oidc_callback")

    def extract_uid(self, data: Identity) -> str:
        return data.uid

    def extract_extra_data(self, data: Identity) -> dict[str, str]:
        return {"iss": data.issuer, "sub": data.subject, "email": data.email}

    def extract_common_fields(self, data: Identity) -> dict[str, str]:
        return {}

    def extract_email_addresses(self, data: Identity) -> list[Any]:
        return []


class SignInAdapter(DefaultSocialAccountAdapter):  # type: ignore[misc]
    """The adapter of django-allauth: one provider from the settings, and the rules of `single_sign_on`."""

    def list_apps(self, request: HttpRequest, provider: str = "", client_id: str = "") -> list[SocialApp]:
        if not settings.OIDC_ISSUER:
            return []
        given = {"server_url": settings.OIDC_ISSUER.rstrip("/"), "scope": settings.OIDC_SCOPES}
        return [
            SocialApp(
                provider="openid_connect",
                provider_id=PROVIDER,
                name=settings.OIDC_NAME,
                client_id=settings.OIDC_CLIENT_ID,
                secret=settings.OIDC_CLIENT_SECRET,
                settings=given,
            )
        ]

    def get_requests_session(self) -> BoundedSession:
        return BoundedSession()

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        identity: Identity = sociallogin.identity
        try:
            admission = single_sign_on.admit(identity)
        except Refused as refused:
            known = {"issuer": identity.issuer, "subject": identity.subject, "email": identity.email}
            log.warning("sign_in.oidc_refused", reason=refused.wrong, ip=_ip(request), **known)
            raise _refusal(request, refused.wrong, refused.remedy, 403) from refused
        sociallogin.user = admission.person
        for tenant in admission.kept:
            messages.warning(
                request,
                f"The provider no longer makes you an administrator of {tenant.name}, but nobody else could administer"
                " it. Make somebody else an administrator.",
            )

    def on_authentication_error(
        self,
        request: HttpRequest,
        provider: Provider,
        error: str | None = None,
        exception: Exception | None = None,
        extra_context: Mapping[str, Any] | None = None,
    ) -> None:
        reason = _explain(request, exception, extra_context or {})
        log.warning("sign_in.oidc_failed", reason=reason, ip=_ip(request))
        if error == "cancelled":
            raise _refusal(request, "You cancelled the sign-in at the provider", "Sign in again if you like.", 403)
        if exception is None and "error" not in request.GET:
            remedy = "It took longer than ten minutes, was used before, or is from another browser. Sign in again."
            raise _refusal(request, "This sign-in is over", remedy, 403)
        raise _refusal(request, f"{settings.OIDC_NAME} could not sign you in", ASK_ADMINISTRATOR, 502)


def nonce_of(state: str) -> str:
    """Return the nonce of a sign-in, which only this server can compute from the state."""
    return salted_hmac("handoffaudit.oidc.nonce", state, algorithm="sha256").hexdigest()


def _ip(request: HttpRequest) -> str:
    return str(get_adapter().get_client_ip(request))


def _explain(request: HttpRequest, exception: Exception | None, context: Mapping[str, Any]) -> str:
    """Return the reason of a failed sign-in for the log, without tokens and codes."""
    if exception is not None:
        return f"{type(exception).__name__}: {str(exception)[:500]}"
    if given := request.GET.get("error"):
        return f"The provider answered {given[:60]!r}: {request.GET.get('error_description', '')[:300]!r}."
    return "The state is unknown or was used before." if context.get("state") is None else "There is no code."


def _refusal(request: HttpRequest, heading: str, remedy: str, status: int) -> ImmediateHttpResponse:
    context = {"heading": heading, "remedy": remedy[:1].upper() + remedy[1:]}
    return ImmediateHttpResponse(render(request, "account/refused.html", context, status=status))


def _identify(claims: Mapping[str, Any], userinfo: Mapping[str, Any]) -> Identity:
    """Return the account that the ID token and UserInfo describe.

    The e-mail address of the account is empty unless the provider verified the address.
    """
    email = next((found for one in (claims, userinfo) if (found := _read_verified_email(one))), "")
    merged = {**userinfo, **claims}
    return Identity(issuer=claims["iss"], subject=claims["sub"], email=email, claims=merged)


def _read_verified_email(claims: Mapping[str, Any]) -> str:
    email, verified = claims.get("email"), claims.get(settings.OIDC_VERIFIED_CLAIM)
    # Some providers write this boolean as a text or a number.
    if not isinstance(email, str) or not (verified is True or verified in ("true", "1") or verified == 1):
        return ""
    fits = len(email) <= LONGEST_EMAIL and re.fullmatch(r"[^\s@<>\x00-\x1f]+@[A-Za-z0-9.-]+", email)
    return email if fits else ""


def _check_endpoint(name: str, address: Any, issuer: str) -> None:
    parts = urlsplit(address) if isinstance(address, str) else None
    if parts is None or parts.hostname is None or parts.scheme not in ("https", urlsplit(issuer).scheme):
        raise ProviderError(f"The discovery document has no usable {name}: {str(address)[:200]!r}.")


def _parse_signing_keys(found: Mapping[str, Any]) -> "list[PyJWK]":
    import jwt  # noqa: PLC0415 -- as in `_verify`

    try:
        return [key for key in jwt.PyJWKSet.from_dict(dict(found)).keys if key.public_key_use in (None, "sig")]
    except (jwt.PyJWTError, ValueError, TypeError, AttributeError) as error:
        raise ProviderError(f"The provider's keys cannot be read ({type(error).__name__}).") from error


def _read(address: str, *, refresh: bool = False) -> dict[str, Any]:
    """Return the JSON object at an address of the provider, from the cache if possible.

    With `refresh`, ask the provider even if the object is cached.
    """
    name = f"oidc:{address}"
    found = None if refresh else cache.get(name)
    if found is None:
        found = _get(address)
        cache.set(name, found, CACHE_SECONDS)
    return dict(found)


def _get(address: str, **options: Any) -> dict[str, Any]:
    with BoundedSession() as session:
        response = session.get(address, **options)
    if response.status_code != requests.codes.ok:
        raise ProviderError(f"{address} answered {response.status_code}.")
    try:
        found = response.json()
    except (ValueError, RecursionError) as error:
        raise ProviderError(f"{address} did not answer with JSON.") from error
    if not isinstance(found, dict):
        raise ProviderError(f"{address} answered with a JSON value that is not an object.")
    return found
