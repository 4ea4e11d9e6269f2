"""The HTTP API: routers, schemas, authentication, errors and health checks."""
