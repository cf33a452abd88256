# The server of Seatrial: runs as web pages and as a JSON API.
#
#   docker build -t seatrial .
#   docker run -p 8321:8321 -e SEATRIAL_TOKEN=… -e SEATRIAL_STORE=postgresql://user:password@host/database seatrial
#
# Without SEATRIAL_STORE the runs are in the volume /data.
FROM python:3.13-slim AS build
# git tells the version.
RUN apt-get update && apt-get install -y --no-install-recommends git && rm -rf /var/lib/apt/lists/*
COPY . /source
RUN python -m venv /opt/seatrial && /opt/seatrial/bin/pip install --no-cache-dir "/source[server,postgres]"

FROM python:3.13-slim
COPY --from=build /opt/seatrial /opt/seatrial
RUN useradd --create-home seatrial && mkdir /data && chown seatrial /data
USER seatrial
WORKDIR /data
VOLUME /data
ENV PATH=/opt/seatrial/bin:$PATH PYTHONUNBUFFERED=1
EXPOSE 8321
# A token is required: the server refuses to start without one on an address that others reach.
# Read-only: the image has no agent that it could run.
ENTRYPOINT ["seatrial", "serve", "--host", "0.0.0.0", "--read-only"]
