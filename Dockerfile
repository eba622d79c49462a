# Trilane for a cluster's machines, or for a CI without Rust. `make dist` first, then: docker build --tag trilane .
FROM python:3.13-slim-bookworm
RUN --mount=type=bind,source=dist,target=/dist \
    pip install --no-cache-dir "$(echo "/dist/trilane-"*"$(uname -m).whl")[lab,cluster]" \
    && useradd --create-home --uid 1000 trilane
USER 1000
WORKDIR /home/trilane
CMD ["trilane", "--help"]
