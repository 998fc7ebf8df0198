# The server in a container: docs/operating.md has the commands, and what to give it.
# Any base with Python 3.11 or newer and its venv will do.
ARG BASE=python:3.13-slim

FROM ${BASE} AS build
# The drivers that are installed; docs/quickstart.md has every extra.
ARG EXTRAS=server,postgres,mysql,redis
# pip's own variables, for a mirror or a folder of wheels.
ARG PIP_INDEX_URL
ARG PIP_FIND_LINKS
ARG PIP_NO_INDEX
WORKDIR /build
COPY pyproject.toml README.md LICENSE requirements.lock ./
COPY src src
RUN python3 -m venv /opt/octavo \
 && /opt/octavo/bin/python -m pip install --no-cache-dir --disable-pip-version-check -c requirements.lock ".[${EXTRAS}]" \
 && /opt/octavo/bin/python -m pip uninstall --yes --quiet setuptools pip

FROM ${BASE}
# The account has a number only, so that Kubernetes can tell that it is not root.
RUN mkdir -m 0700 /data && chown 10001:10001 /data
COPY --from=build /opt/octavo /opt/octavo
ENV PATH=/opt/octavo/bin:$PATH \
    HOME=/data \
    OCTAVO__SERVER__HOST=0.0.0.0 \
    OCTAVO__SERVER__PORT=8000
USER 10001:10001
# octavo.db, octavo_queue and octavo_vault, unless settings say otherwise. Nothing is written elsewhere but in /tmp.
WORKDIR /data
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 CMD ["python3", "-c", \
  "import http.client, os; ask = http.client.HTTPConnection('127.0.0.1', int(os.environ['OCTAVO__SERVER__PORT']), timeout=4); ask.request('GET', '/health/ready'); raise SystemExit(ask.getresponse().status != 200)"]
ENTRYPOINT ["octavo"]
CMD ["serve"]
