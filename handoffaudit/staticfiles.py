"""Static files: bundled, hashed and compressed after `collectstatic`, and otherwise served from their folders."""

import re
from collections.abc import Iterator
from typing import Any

from django.core.files.base import ContentFile
from whitenoise.compress import Compressor
from whitenoise.storage import CompressedManifestStaticFilesStorage

BUNDLE = "css/app.css"
IMPORT = re.compile(r'@import url\("(?P<name>[a-z-]+\.css)"\) layer\((?P<layer>[a-z]+)\);')
COMMENT = re.compile(r"/\*.*?\*/\n*", re.DOTALL)


class Storage(CompressedManifestStaticFilesStorage):  # type: ignore[misc]
    keep_only_hashed_files = True
    # JavaScript modules import each other by their hashed names. Django's own support fails on extensions of htmx: they
    # import `../htmx`, and no static file has this name.
    patterns = (
        *CompressedManifestStaticFilesStorage.patterns,
        ("js/*.js", ((r"""(?P<matched>(?P<word>from|import) "(?P<url>\./[a-z]+\.js)";)""", '%(word)s "%(url)s";'),)),
    )

    def stored_name(self, name: str) -> str:
        # A page must not fail before the files are collected, as in tests and in a fresh checkout.
        return super().stored_name(name) if self.hashed_files else name

    def post_process(self, paths: dict[str, Any], dry_run: bool = False, **options: Any) -> Iterator[Any]:  # noqa: FBT001, FBT002
        if BUNDLE in paths and not dry_run:
            self._write_bundle(paths)
        yield from super().post_process(paths, dry_run, **options)

    def _write_bundle(self, paths: dict[str, Any]) -> None:
        """Replace each import of the bundle by its sheet, so that a page needs one request for its styles.

        `paths` has the storage and the path of each collected file. The bundle replaces its sheets in `paths`.
        """

        def read(name: str) -> str:
            storage, path = paths.pop(name)
            self.delete(name)
            with storage.open(path) as file:
                return COMMENT.sub("", file.read().decode())

        def layer(found: re.Match[str]) -> str:
            return f"@layer {found['layer']} {{\n{read('css/' + found['name'])}}}"

        self.save(BUNDLE, ContentFile(IMPORT.sub(layer, read(BUNDLE))))
        paths[BUNDLE] = (self, BUNDLE)

    def create_compressor(self, **kwargs: Any) -> Compressor:
        # The first start collects the files. For all files, gzip takes 0.6 s. Brotli takes 27 s, and its files are a
        # sixth smaller.
        kwargs["extensions"] = [*Compressor.SKIP_COMPRESS_EXTENSIONS, "map"]
        return Compressor(use_brotli=False, **kwargs)
