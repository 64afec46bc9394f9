# The dashboard, or any command, in a slim image and not as root.
#   docker build -t judgescope .                              light: API, planted and recorded judges
#   docker build -t judgescope --build-arg FLAVOUR=local .    with models on this machine (torch)
#   docker run -p 127.0.0.1:8501:8501 -e JUDGESCOPE_TOKEN -v judgescope:/data judgescope
#   docker run --rm -v "$PWD:/in" -w /in -v judgescope:/data judgescope study trust --data labelled.csv
# Without a JUDGESCOPE_TOKEN of at least 16 characters the dashboard does not start.
ARG PYTHON=3.13-slim-trixie

FROM python:${PYTHON} AS wheel
WORKDIR /src
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /dist .

FROM python:${PYTHON}
ARG FLAVOUR=light
# An index that torch is taken from, a CPU build for example; empty for the usual one.
ARG TORCH_INDEX=""
WORKDIR /build
RUN --mount=type=bind,from=wheel,source=/dist,target=/build/dist \
    --mount=type=bind,source=constraints.txt,target=/build/constraints.txt \
    --mount=type=bind,source=constraints-torch.txt,target=/build/constraints-torch.txt \
    set -eu; \
    case "$FLAVOUR" in \
      light) extra="" ;; \
      local) extra="[local]"; \
        pip install --no-cache-dir ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} --requirement constraints-torch.txt ;; \
      *) echo "FLAVOUR is light or local, not $FLAVOUR" >&2; exit 1 ;; \
    esac; \
    pip install --no-cache-dir --constraint constraints.txt "$(echo dist/*.whl)$extra"; \
    useradd --uid 10001 --create-home judgescope; \
    install --directory --owner judgescope /data
USER 10001
WORKDIR /data
ENV JUDGESCOPE_HOME=/data JUDGESCOPE_CACHE=/data/cache PYTHONUNBUFFERED=1
VOLUME /data
EXPOSE 8501
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s CMD ["python", "-c", "import os, urllib.request as u; u.urlopen(u.Request('http://127.0.0.1:8501/_stcore/health', headers={'Authorization': 'Bearer ' + os.environ['JUDGESCOPE_TOKEN']}), timeout=4)"]
ENTRYPOINT ["judgescope"]
CMD ["dashboard", "--address", "0.0.0.0"]
