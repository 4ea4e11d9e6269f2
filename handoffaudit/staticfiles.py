"""Static files: hashed and compressed where they were collected, straight from their folders where not."""

from whitenoise.storage import CompressedManifestStaticFilesStorage


class Storage(CompressedManifestStaticFilesStorage):
    # A page must not fail where nobody has collected the files yet (tests, a first look from a checkout).
    manifest_strict = False
