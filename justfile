# Tasks for contributors. Each one runs in the environment `.venv`.
export PATH := justfile_directory() / ".venv/bin:" + env("PATH")

# Run the linters and the type checker, as CI does.
lint:
    bash .ci/lint

# Format the code and sort its imports.
format:
    ruff check --fix --select I .
    ruff format .
    djlint templates --reformat --quiet

# Run the tests, or those that are named.
test *arguments:
    pytest {{ arguments }}

# Write the generated documentation anew.
generate:
    python -m tests.test_docs
    HANDOFFAUDIT_DATA="$(mktemp -d)" python manage.py export_openapi_schema --api handoffaudit.api.app.api --indent 2 --sorted --output docs/openapi.json

# Start the product with sample data, in a folder of its own.
sample:
    handoffaudit up --sample --data .venv/sample-data

# Run everything that CI runs.
ci:
    bash .ci/run

# Build and check a release; nothing is published.
release:
    scripts/release
