pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http
export OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:8000
export OTEL_EXPORTER_OTLP_HEADERS='Authorization=Bearer%20YOUR_KEY'
export OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf
