"""Access control: the checks before every request.

Without a token only loopback `Host` names are served, so that a foreign page cannot reach the
server by pointing its own name here (DNS rebinding); the port is not compared, since it may be
forwarded. A request that changes something, and any request to the API
that a browser says comes from elsewhere, must come from this very page (`Origin`,
`Sec-Fetch-Site`). With a token, which an address other machines can reach must have, every request
needs it: once as `?token=…`, which sets a cookie, or as `Authorization: Bearer …`.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from http import cookies
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from glassformer.errors import GlassformerError
from glassformer.language import chinese_of

LOOPBACK = frozenset(["127.0.0.1", "localhost", "::1"])
MOST_BODY = 1 << 20
"""The largest request body; texts and edits are far smaller."""
MOST_FILE = 5_000_000
"""The largest file that is sent: a worked example, or a playlist of a million characters."""
_FILES = ("/api/audits", "/api/playlist")
_SAFE = frozenset(["GET", "HEAD", "OPTIONS"])
_NOTEBOOKS = (
    "'self' http://localhost:* http://127.0.0.1:* http://[::1]:* "
    "https://localhost:* https://127.0.0.1:* vscode-webview:"
)
_POLICY = (  # KaTeX draws tall brackets with style attributes; no text becomes markup
    "default-src 'self'; style-src-attr 'unsafe-inline'; img-src 'self' data: blob:; "
    "object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors "
)


class ForbiddenError(GlassformerError):
    """A request that may not be answered."""


class TooMuchError(GlassformerError):
    """A request that is too large."""


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    return host in LOOPBACK


@dataclass(frozen=True)
class Access:
    """Who may use the server."""

    token: str | None = None
    """The token every request needs; None: no token, and only loopback hosts are served."""
    framed: bool = False
    """Whether a notebook may embed the page in a frame."""
    cookie: str = "glassformer"
    """The cookie's name, unique per server, since cookies ignore ports."""


class Guard:
    """ASGI middleware: checks each request and sets security headers."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        dressed = self._with_headers(scope, send)
        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, dressed)
            return
        if scope["method"] not in _SAFE:
            most = MOST_FILE if scope["path"] in _FILES else MOST_BODY
            try:
                body = await _read(Request(scope, receive), most)
            except ClientDisconnect:
                return
            if body is None:
                told = TooMuchError("a request may bring at most {most} bytes", most=f"{most:,}")
                await _refused(413, told)(scope, receive, dressed)
                return
            receive = _replayed(body, receive)
        await self._app(scope, receive, dressed)

    # --- checks ---

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if self._access.token is not None:
            found = self._check_token(scope, headers, self._access.token)
            if found is not None:
                return found
        elif _host_name(headers.get("host", "")) not in LOOPBACK:
            return _refused(403, ForbiddenError("this server answers to localhost only"))
        unsafe = scope["method"] not in _SAFE
        if (unsafe or scope["path"].startswith("/api")) and not _is_own(headers):
            return _refused(403, ForbiddenError("this request comes from another page"))
        return None

    def _check_token(self, scope: Scope, headers: Headers, token: str) -> Response | None:
        asked = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if scope["method"] == "GET" and scope["path"] == "/" and _same(asked, token):
            answer = RedirectResponse(scope.get("root_path", "") + "/", 303)
            # Lax, so that links from other sites work. What such a site could do with the cookie,
            # calling the API or changing something, is refused by `_is_own`.
            answer.set_cookie(self._access.cookie, token, httponly=True, samesite="lax")
            return answer
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        if _same(bearer, token) or _same(_cookie(headers, self._access.cookie), token):
            return None
        told = ForbiddenError("the token is missing or wrong: open the address that was printed")
        return _refused(403, told)

    # --- headers ---

    def _with_headers(self, scope: Scope, send: Send) -> Send:
        framed = self._access.framed
        fixed = {
            "Content-Security-Policy": _POLICY + (_NOTEBOOKS if framed else "'none'"),
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cross-Origin-Resource-Policy": "same-origin",
        }
        if not framed:
            fixed["X-Frame-Options"] = "DENY"

        async def dressed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in fixed.items():
                    headers[name] = value
                headers["Cache-Control"] = _caching(scope["path"], message["status"])
            await send(message)

        return dressed


def _caching(path: str, status: int) -> str:
    """API responses are never cached; files named after their content hash always are."""
    if path.startswith("/api"):
        return "no-store"
    is_fixed = path.startswith("/assets/") and status == 200
    return "private, max-age=31536000, immutable" if is_fixed else "no-cache"


def _host_name(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _is_own(headers: Headers) -> bool:
    """Whether a request comes from this page, or not from a browser page at all."""
    origin = headers.get("origin")
    if origin is not None:
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        if parts.scheme not in ("http", "https") or parts.netloc != headers.get("host", ""):
            return False
    site = headers.get("sec-fetch-site")
    return site is None or site in ("same-origin", "none")


def _cookie(headers: Headers, name: str) -> str:
    jar: cookies.SimpleCookie = cookies.SimpleCookie()
    try:
        jar.load(headers.get("cookie", ""))
    except cookies.CookieError:
        return ""
    return jar[name].value if name in jar else ""


def _same(given: str, token: str) -> bool:
    """Constant-time comparison."""
    return secrets.compare_digest(given.encode(), token.encode())


def _refused(status: int, why: GlassformerError) -> Response:
    return JSONResponse({"detail": str(why), "zh": chinese_of(why)}, status)


# --- bodies ---


async def _read(request: Request, most: int) -> bytes | None:
    """The whole body, or None if it is too long; raises if the client disconnects."""
    length = request.headers.get("content-length", "0")
    if not length.isdecimal() or len(length) > 20 or int(length) > most:
        return None
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > most:
            return None
    return bytes(body)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """A `receive` that replays the body, then continues with the original."""
    sent = False

    async def again() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again
