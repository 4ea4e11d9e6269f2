FROM python:3.12-slim AS build
# Optional parts to install, with commas between: bedrock, otel, vertex.
ARG EXTRAS=""
WORKDIR /source
RUN python -m venv /venv
COPY requirements.lock ./
RUN /venv/bin/pip install --no-cache-dir --require-hashes --requirement requirements.lock
COPY pyproject.toml README.md LICENSE .git_archival.txt ./
COPY handoffaudit ./handoffaudit
COPY templates ./templates
COPY static ./static
COPY docs ./docs
# The version of the image, such as 0.1.0: the tags of git are not copied. An archive of git names its version itself.
ARG VERSION=""
RUN pip install --no-cache-dir "hatchling>=1.27" "hatch-vcs>=0.5" \
    && SETUPTOOLS_SCM_PRETEND_VERSION_FOR_HANDOFFAUDIT="$VERSION" python -m hatchling build --target wheel --directory /wheels \
    && /venv/bin/pip install --no-cache-dir --no-deps /wheels/*.whl
# What the lock file has keeps its version.
RUN if [ -n "$EXTRAS" ]; then \
        /venv/bin/pip freeze --exclude handoffaudit > /tmp/installed.txt \
        && /venv/bin/pip install --no-cache-dir --constraint /tmp/installed.txt "$(ls /wheels/*.whl)[$EXTRAS]"; \
    fi
# Made here, once, so that the containers need no writable folder.
RUN HANDOFFAUDIT_SECRET_KEY=used-while-building-only-and-nowhere-else \
    HANDOFFAUDIT_DATA=/tmp/data HANDOFFAUDIT_STATIC=/static HANDOFFAUDIT_LOG_LEVEL=WARNING \
    /venv/bin/handoffaudit manage collectstatic --noinput --verbosity 0

FROM python:3.12-slim
RUN groupadd --system --gid 10001 handoffaudit \
    && useradd --system --uid 10001 --gid 10001 --create-home --home-dir /home/handoffaudit handoffaudit \
    && install --directory --mode 700 --owner handoffaudit --group handoffaudit /data
COPY --from=build /venv /venv
COPY --from=build /static /static
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 HANDOFFAUDIT_DATA=/data HANDOFFAUDIT_STATIC=/static
USER handoffaudit
WORKDIR /home/handoffaudit
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=6 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://localhost:8000/readyz', timeout=3)"]
# Alone, the image is the embedded way; docker-compose.yml gives it other commands.
CMD ["handoffaudit", "up", "--host", "0.0.0.0"]
