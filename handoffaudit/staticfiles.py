"""Static files: hashed and compressed where they were collected, straight from their folders where not."""

from typing import Any

from whitenoise.compress import Compressor
from whitenoise.storage import CompressedManifestStaticFilesStorage


class Storage(CompressedManifestStaticFilesStorage):  # type: ignore[misc]
    keep_only_hashed_files = True
    # Modules name each other by their hashed names. Django's own support stumbles over htmx, which has none.
    patterns = (
        *CompressedManifestStaticFilesStorage.patterns,
        ("js/*.js", ((r"""(?P<matched>(?P<word>from|import) "(?P<url>\./[a-z]+\.js)";)""", '%(word)s "%(url)s";'),)),
    )

    def stored_name(self, name: str) -> str:
        # A page must not fail where nobody has collected the files yet (tests, a first look from a checkout).
        return super().stored_name(name) if self.hashed_files else name

    def create_compressor(self, **kwargs: Any) -> Compressor:
        # The first start collects: gzip takes 0.6 s for all of them, brotli 27 s for a sixth less.
        kwargs["extensions"] = [*Compressor.SKIP_COMPRESS_EXTENSIONS, "map"]
        return Compressor(use_brotli=False, **kwargs)
